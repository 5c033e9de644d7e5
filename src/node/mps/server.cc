#include "node/mps/server.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <system_error>

#include "base/file.h"
#include "base/log.h"
#include "host/selinux.h"

namespace pitcrew::node::mps {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

constexpr auto kCommandTimeout = 20s;
// How long clients get to end after `quit`; well below the 30 s that a pod gets.
constexpr auto kQuitGrace = 10s;
// After a failure: doubled up to upstream's fixed 30 s.
constexpr auto kFirstRetry = 1s;
constexpr auto kLongestRetry = 30s;
// A server that dies sooner counts as one that did not start.
constexpr auto kStable = 10s;

base::Status MakeFolder(const fs::path& path) {
  std::error_code problem;
  fs::create_directories(path, problem);
  if (!problem) return {};
  return base::Fail(base::FromErrno(problem.value(), fmt::format("make folder {}", path.string())));
}

}  // namespace

Server::Server(SharedResource resource, const NodePaths& paths, const io::SignalReceiver& children)
    : resource_(std::move(resource)),
      paths_(paths),
      children_(children),
      folder_(paths.mps_folder),
      control_(folder_.PipeFolder(resource_.name), folder_.LogFolder(resource_.name)),
      log_(log_folder() / "control.log") {}

fs::path Server::log_folder() const { return folder_.LogFolder(resource_.name); }

void Server::Start(const io::StopToken& stop) {
  if (serves() || !next_start_.passed()) return;
  if (const auto started = BringUp(stop); !started) {
    RemoveStartedFile();
    KillProcesses();
    daemon_ = 0;
    if (started.error().code != base::Code::kCancelled) Failed(started.error());
    return;
  }
  since_ = base::SteadyClock::now();
  base::LogInfo("clients are served", {{"resource", resource_.name},
                                       {"gpus", resource_.gpus.size()},
                                       {"clients_per_gpu", resource_.replicas},
                                       {"daemon", daemon_}});
}

// In upstream's order.
base::Status Server::BringUp(const io::StopToken& stop) {
  TRY(SetComputeMode(nvml::ComputeMode::kExclusiveProcess));
  TRY(PrepareFolders());
  auto daemon = control_.StartDaemon(stop);
  if (!daemon) {
    // A daemon of before may still serve these folders, though nobody looks after it.
    if (const auto left = control_.Send("quit", kCommandTimeout, stop)) {
      base::LogWarning("a daemon that nobody looked after was told to quit",
                       {{"resource", resource_.name}});
    }
    return base::Fail(daemon.error());
  }
  daemon_ = *daemon;
  for (const auto& command : LimitCommands(resource_)) {
    TRY(control_.Send(command, kCommandTimeout, stop));
  }
  return base::WriteFileAtomically(folder_.StartedFile(resource_.name), "");
}

base::Status Server::PrepareFolders() const {
  const auto pipe = folder_.PipeFolder(resource_.name);
  TRY(MakeFolder(pipe));
  TRY_ASSIGN(const bool selinux, host::HasSelinux(paths_.sys));
  // Clients are containers without privileges.
  if (selinux) TRY(host::Relabel(pipe, host::kContainerFileLabel));
  return MakeFolder(log_folder());
}

base::Status Server::SetComputeMode(nvml::ComputeMode mode) const {
  // Not kept open: NVML keeps the driver from being unloaded.
  TRY_ASSIGN(const auto library, nvml::Library::Open(paths_.driver_roots));
  for (const auto& gpu : resource_.gpus) TRY(library->SetComputeMode(gpu.uuid, mode));
  return {};
}

void Server::RemoveStartedFile() const {
  std::error_code problem;
  fs::remove(folder_.StartedFile(resource_.name), problem);
  if (problem) {
    base::LogWarning(
        "a file cannot be removed",
        base::FromErrno(problem.value(), folder_.StartedFile(resource_.name).string()));
  }
}

void Server::Stop() {
  // First of all: from now on no device is given to new containers.
  RemoveStartedFile();
  if (serves()) {
    const auto deadline = base::Deadline::After(kQuitGrace);
    // Not stopped by the stop that is the reason for this.
    if (const auto told = control_.Send("quit", kQuitGrace, io::StopToken()); !told) {
      base::LogWarning("the daemon does not take quit", told.error(),
                       {{"resource", resource_.name}});
    }
    AwaitEnd(deadline);
  }
  KillProcesses();
  if (const auto set = SetComputeMode(nvml::ComputeMode::kDefault); !set) {
    base::LogWarning("GPUs stay in the compute mode EXCLUSIVE_PROCESS", set.error());
  }
  std::error_code problem;
  fs::remove_all(log_folder(), problem);
  if (problem) {
    base::LogWarning("a folder cannot be removed",
                     base::FromErrno(problem.value(), log_folder().string()));
  }
}

void Server::AwaitEnd(base::Deadline deadline) {
  bool killed = false;
  while (::waitpid(daemon_, nullptr, WNOHANG) == 0) {
    if (!io::WaitReadable({children_.fd()}, io::StopToken(), deadline) && !killed) {
      base::LogWarning("the daemon still has clients, and is ended with them",
                       {{"resource", resource_.name}});
      ::kill(daemon_, SIGKILL);
      killed = true;
      deadline = base::Deadline::Never();
    }
    while (children_.Take()) {
    }
  }
  daemon_ = 0;
  log_.Copy();
}

void Server::KillProcesses() const {
  const auto processes = control_.Processes();
  if (!processes) {
    base::LogWarning("processes of MPS may be left", processes.error());
    return;
  }
  for (const pid_t process : *processes) ::kill(process, SIGKILL);
}

bool Server::OnChildEnded(pid_t child) {
  if (!serves() || child != daemon_) return false;
  RemoveStartedFile();
  daemon_ = 0;
  log_.Copy();
  // Its MPS servers cannot go on without it.
  KillProcesses();
  if (base::SteadyClock::now() - since_ >= kStable) failures_ = 0;
  Failed(base::Unavailable("MpsDaemonDied",
                           "the MPS control daemon has ended by itself; its clients have lost "
                           "their GPUs and must be started again"));
  return true;
}

void Server::Failed(const base::Error& error) {
  // At once after a daemon that served for long, and for the first time.
  const auto wait = failures_ == 0
                        ? 0s
                        : std::min(kFirstRetry * (1 << std::min(failures_ - 1, 5)), kLongestRetry);
  ++failures_;
  next_start_ = base::Deadline::After(wait);
  base::LogError("clients are not served", error,
                 {{"resource", resource_.name}, {"next_start_in_seconds", wait.count()}});
}

}  // namespace pitcrew::node::mps
