#include "base/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <exception>
#include <utility>

namespace pitcrew::base {
namespace {

int WaitFor(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

void SendKill(pid_t pid, KillScope scope) {
  if (scope == KillScope::kGroup && ::kill(-pid, SIGKILL) == 0) return;
  ::kill(pid, SIGKILL);
}

}  // namespace

Result<ChildProcess> ChildProcess::Watch(pid_t pid, KillScope scope) {
  const auto give_up = [&](int problem) {
    SendKill(pid, scope);
    WaitFor(pid);
    return Fail(FromErrno(problem, "watch a program"));
  };
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return give_up(errno);
  FileDescriptor ended(ends[0]);
  FileDescriptor ends_with_child(ends[1]);
  try {
    std::thread waiter([pid, told = std::move(ends_with_child)] {
      siginfo_t ignored{};
      // The status stays for Reap. The pipe closes with this thread, which makes it readable.
      while (::waitid(P_PID, static_cast<id_t>(pid), &ignored, WEXITED | WNOWAIT) < 0 &&
             errno == EINTR) {
      }
    });
    return ChildProcess(pid, scope, std::move(ended), std::move(waiter));
  } catch (const std::exception&) {  // no thread left
    return give_up(EAGAIN);
  }
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)),
      scope_(other.scope_),
      ended_(std::move(other.ended_)),
      waiter_(std::move(other.waiter_)) {}

ChildProcess::~ChildProcess() {
  if (pid_ <= 0) return;
  Kill();
  Reap();
}

void ChildProcess::Kill() const {
  if (pid_ > 0) SendKill(pid_, scope_);
}

int ChildProcess::Reap() {
  // Only then may the number be given to another process.
  waiter_.join();
  return WaitFor(std::exchange(pid_, 0));
}

int ShellStatus(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

}  // namespace pitcrew::base
