#include "node/device_plugin/command.h"

#include <fmt/format.h>
#include <signal.h>

#include <cstdio>
#include <cstdlib>

#include "io/stop.h"
#include "node/device_plugin/daemon.h"
#include "node/device_plugin/settings.h"
#include "nvml/guarded.h"

namespace pitcrew::node::device_plugin {
namespace {

base::Status Run(Options options) {
  io::StopSource stop;
  TRY(stop.StopOnSignals({SIGTERM, SIGINT, SIGQUIT}));
  TRY_ASSIGN(const auto reload, io::SignalReceiver::Create({SIGHUP}));
  Daemon daemon(std::move(options), NodePaths(), reload, stop.token());
  return daemon.Run();
}

}  // namespace

int Command(int argc, char** argv) {
  auto options = ParseOptions(argc, argv);
  if (options && !*options) return 0;
  const auto status =
      options ? Run(**std::move(options)) : base::Status(base::Fail(options.error()));
  if (!status) fmt::print(stderr, "nvidia-device-plugin: {}\n", status.error().ToString());
  const int code = status ? 0 : 1;
  if (nvml::HasHangingCalls()) std::_Exit(code);
  return code;
}

}  // namespace pitcrew::node::device_plugin
