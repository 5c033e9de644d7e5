#include "host/child_process.h"

#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <utility>

namespace pitcrew::host {
namespace {

void KillGroup(pid_t pid) {
  // The child alone, should it not have become a leader.
  if (::kill(-pid, SIGKILL) != 0) ::kill(pid, SIGKILL);
}

int Wait(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

base::Result<ChildProcess> ChildProcess::Watch(pid_t pid, EndWatch how) {
  if (how == EndWatch::kPidfd) {
    base::FileDescriptor end(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (end.valid()) return ChildProcess(pid, std::move(end), std::thread());
  }
  base::FileDescriptor end(::eventfd(0, EFD_CLOEXEC));
  if (!end.valid()) {
    const int problem = errno;
    KillGroup(pid);
    Wait(pid);
    return base::Fail(base::FromErrno(problem, "watch a program"));
  }
  std::thread waiter([pid, event = end.get()] {
    siginfo_t info{};
    // Leaves the child to be reaped by its owner, so its number stays taken.
    while (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT) < 0 &&
           errno == EINTR) {
    }
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(event, &one, sizeof one);
  });
  return ChildProcess(pid, std::move(end), std::move(waiter));
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      end_(std::move(other.end_)),
      waiter_(std::move(other.waiter_)) {}

ChildProcess::~ChildProcess() {
  if (pid_ <= 0) return;
  KillGroup(pid_);
  Reap();
}

int ChildProcess::Reap() {
  if (waiter_.joinable()) waiter_.join();
  return Wait(std::exchange(pid_, -1));
}

}  // namespace pitcrew::host
