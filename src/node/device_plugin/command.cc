#include "node/device_plugin/command.h"

#include <signal.h>

#include <cstdlib>
#include <utility>

#include "io/program.h"
#include "node/device_plugin/daemon.h"
#include "node/device_plugin/settings.h"
#include "nvml/guarded.h"

namespace pitcrew::node::device_plugin {
namespace {

base::Status Run(Options options, const io::StopToken& stop) {
  TRY_ASSIGN(const auto reload, io::SignalReceiver::Create({SIGHUP}));
  Daemon daemon(std::move(options), NodePaths(), reload, stop);
  return daemon.Run();
}

}  // namespace

int Command(int argc, char** argv) {
  const int status = io::RunProgram({.failure = "The device plugin ends", .usage_status = 1},
                                    ParseOptions(argc, argv), Run);
  if (nvml::HasHangingCalls()) std::_Exit(status);
  return status;
}

}  // namespace pitcrew::node::device_plugin
