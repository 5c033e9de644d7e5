#include "node/mps/command.h"

#include <fmt/format.h>
#include <signal.h>

#include <cstdio>
#include <string_view>

#include "base/command_line.h"
#include "io/stop.h"
#include "node/mps/settings.h"
#include "node/mps/shared_memory.h"
#include "node/mps/supervisor.h"

namespace pitcrew::node::mps {
namespace {

constexpr std::string_view kMountCommand = "mount-shm";

base::Status Mount(int argc, char** argv) {
  base::CommandLine line("mps-control-daemon mount-shm",
                         "Mounts the shared memory of MPS at /mps/shm: a tmpfs of half of the "
                         "node's memory",
                         "NVIDIA MPS Control Daemon version " PITCREW_VERSION);
  TRY_ASSIGN(const bool run, line.Parse(argc, argv));
  if (!run) return {};
  return MountSharedMemory(mps_folder::MpsFolder().ShmFolder());
}

base::Status Run(int argc, char** argv) {
  if (argc > 1 && argv[1] == kMountCommand) return Mount(argc - 1, argv + 1);
  TRY_ASSIGN(auto options, ParseOptions(argc, argv));
  if (!options) return {};
  io::StopSource stop;
  TRY(stop.StopOnSignals({SIGTERM, SIGINT, SIGQUIT}));
  TRY_ASSIGN(const auto reload, io::SignalReceiver::Create({SIGHUP}));
  TRY_ASSIGN(const auto children, io::SignalReceiver::Create({SIGCHLD}));
  return Supervisor(*std::move(options), NodePaths(), reload, children, stop.token()).Run();
}

}  // namespace

int Command(int argc, char** argv) {
  const auto status = Run(argc, argv);
  if (status) return 0;
  fmt::print(stderr, "mps-control-daemon: {}\n", status.error().ToString());
  return 1;
}

}  // namespace pitcrew::node::mps
