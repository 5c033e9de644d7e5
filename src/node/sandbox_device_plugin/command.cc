#include "node/sandbox_device_plugin/command.h"

#include <fmt/format.h>
#include <signal.h>

#include <cstdio>

#include "io/stop.h"
#include "node/sandbox_device_plugin/daemon.h"
#include "node/sandbox_device_plugin/settings.h"

namespace pitcrew::node::sandbox_device_plugin {
namespace {

base::Status Serve(Options options) {
  io::StopSource stop;
  TRY(stop.StopOnSignals({SIGTERM, SIGINT, SIGQUIT}));
  Daemon daemon(std::move(options), NodePaths(), stop.token());
  return daemon.Run();
}

int Run(Client client, int argc, char** argv) {
  constexpr int kFailed = 1;
  constexpr int kMisused = 2;
  auto options = ParseOptions(client, argc, argv);
  if (options && !*options) return 0;
  const bool understood = options.has_value();
  const auto status =
      understood ? Serve(**std::move(options)) : base::Status(base::Fail(options.error()));
  if (status) return 0;
  fmt::print(stderr, "{}: {}\n", ProgramName(client), status.error().ToString());
  return understood ? kFailed : kMisused;
}

}  // namespace

int KubevirtCommand(int argc, char** argv) { return Run(Client::kKubevirt, argc, argv); }
int KataCommand(int argc, char** argv) { return Run(Client::kKata, argc, argv); }

}  // namespace pitcrew::node::sandbox_device_plugin
