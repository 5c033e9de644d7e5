// mps-control-daemon on a test's own folders: the first word is the MPS folder, the second one the
// driver's root.
#include <signal.h>

#include <cstdio>

#include "io/stop.h"
#include "node/mps/settings.h"
#include "node/mps/supervisor.h"

namespace {

using namespace pitcrew;

base::Status Run(int argc, char** argv) {
  node::mps::NodePaths paths;
  paths.mps_folder = argv[1];
  paths.driver_roots = {argv[2]};
  argv[2] = argv[0];
  TRY_ASSIGN(const auto options, node::mps::ParseOptions(argc - 2, argv + 2));
  if (!options) return {};
  io::StopSource stop;
  TRY(stop.StopOnSignals({SIGTERM, SIGINT, SIGQUIT}));
  TRY_ASSIGN(const auto reload, io::SignalReceiver::Create({SIGHUP}));
  TRY_ASSIGN(const auto children, io::SignalReceiver::Create({SIGCHLD}));
  return node::mps::Supervisor(*options, paths, reload, children, stop.token()).Run();
}

}  // namespace

int main(int argc, char** argv) {
  const auto status = argc < 3 ? base::Status(base::Fail(base::Invalid("BadUsage", "two folders")))
                               : Run(argc, argv);
  if (status) return 0;
  std::fprintf(stderr, "mps_program: %s\n", status.error().ToString().c_str());
  return 1;
}
