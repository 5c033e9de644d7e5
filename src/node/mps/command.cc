#include "node/mps/command.h"

#include <signal.h>

#include <string_view>
#include <utility>

#include "base/command_line.h"
#include "io/program.h"
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

base::Status Run(Options options, const io::StopToken& stop) {
  TRY_ASSIGN(const auto reload, io::SignalReceiver::Create({SIGHUP}));
  TRY_ASSIGN(const auto children, io::SignalReceiver::Create({SIGCHLD}));
  return Supervisor(std::move(options), NodePaths(), reload, children, stop).Run();
}

}  // namespace

int Command(int argc, char** argv) {
  if (argc > 1 && argv[1] == kMountCommand) {
    const auto mounted = Mount(argc - 1, argv + 1);
    return mounted ? 0 : io::EndProgram("Shared memory is not mounted", mounted.error(), 1);
  }
  return io::RunProgram({.failure = "The MPS control daemon ends", .usage_status = 1},
                        ParseOptions(argc, argv), Run);
}

}  // namespace pitcrew::node::mps
