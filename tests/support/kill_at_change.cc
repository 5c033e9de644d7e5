#include "tests/support/kill_at_change.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <set>

namespace pitcrew::test_support {
namespace {

bool IsChange(const __ptrace_syscall_info& call) {
  static const std::set<std::uint64_t> kChanges = {
#ifdef SYS_rename  // only the calls below exist on arm64
      SYS_rename,   SYS_unlink,    SYS_mkdir,     SYS_rmdir,    SYS_chmod,    SYS_chown,
      SYS_symlink,  SYS_link,
#endif
      SYS_fchmod,   SYS_fchown,    SYS_fchmodat,  SYS_fchownat, SYS_mkdirat,  SYS_unlinkat,
      SYS_renameat, SYS_renameat2, SYS_symlinkat, SYS_linkat,   SYS_ftruncate};
  // What is opened to be written may have changed by that alone: it is cut off, or made.
  constexpr int kOpenFlags = 2;
  if (call.entry.nr == SYS_openat) {
    const auto flags = call.entry.args[kOpenFlags];
    return (flags & O_CREAT) != 0 || (flags & O_ACCMODE) != O_RDONLY;
  }
  return kChanges.contains(call.entry.nr);
}

// What goes to standard output and error is the log.
bool IsWrite(const __ptrace_syscall_info& call) {
  return call.entry.nr == SYS_write && call.entry.args[0] > STDERR_FILENO;
}

// Lets the child go on until its next system call. False when it has ended.
bool Continue(pid_t child) {
  int status = 0;
  EXPECT_EQ(::ptrace(PTRACE_SYSCALL, child, 0, 0), 0);
  return ::waitpid(child, &status, 0) == child && WIFSTOPPED(status);
}

using IsWanted = std::function<bool(const __ptrace_syscall_info&)>;

bool IsAChange(const __ptrace_syscall_info& call) { return IsChange(call) || IsWrite(call); }

// Lets the child go on until it begins call `number` of the wanted ones. False when it has ended.
bool ContinueTo(pid_t child, int number, const IsWanted& is_wanted) {
  while (Continue(child)) {
    __ptrace_syscall_info call{};
    ::ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof(call), &call);
    if (call.op != PTRACE_SYSCALL_INFO_ENTRY) continue;
    if (is_wanted(call) && --number == 0) return true;
  }
  return false;
}

// Runs `work` in a child process until it begins such a call. 0 when it made fewer.
pid_t StopAt(int number, const std::function<void()>& work, const IsWanted& is_wanted) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::ptrace(PTRACE_TRACEME, 0, 0, 0);
    ::raise(SIGSTOP);
    work();
    ::_exit(0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSTOPPED(status));
  // Without it the kernel does not tell entries of calls from other stops.
  EXPECT_EQ(::ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL), 0);
  return ContinueTo(child, number, is_wanted) ? child : 0;
}

pid_t StopAtChange(int number, const std::function<void()>& work) {
  return StopAt(number, work, IsAChange);
}

void Kill(pid_t child) {
  int status = 0;
  ::kill(child, SIGKILL);
  ::waitpid(child, &status, 0);
}

void LetEnd(pid_t child) {
  while (Continue(child)) {
  }
}

}  // namespace

bool KillAtChange(int number, const std::function<void()>& work) {
  const pid_t child = StopAtChange(number, work);
  if (child == 0) return false;
  Kill(child);
  return true;
}

bool InterruptAtChange(int number, const std::function<void()>& work,
                       const std::function<void()>& meanwhile) {
  const pid_t child = StopAtChange(number, work);
  if (child == 0) return false;
  meanwhile();
  LetEnd(child);
  return true;
}

bool KillAfterInterrupt(int number, int later, const std::function<void()>& work,
                        const std::function<void()>& meanwhile) {
  const pid_t child = StopAtChange(number, work);
  if (child == 0) return false;
  meanwhile();
  // The change at which it stands is the first one.
  if (!ContinueTo(child, later, IsAChange)) return false;
  Kill(child);
  return true;
}

bool InterruptAtCall(long call, const std::function<void()>& work,
                     const std::function<void()>& meanwhile) {
  const pid_t child = StopAt(1, work, [&](const __ptrace_syscall_info& info) {
    return info.entry.nr == static_cast<std::uint64_t>(call);
  });
  if (child == 0) return false;
  meanwhile();
  LetEnd(child);
  return true;
}

}  // namespace pitcrew::test_support
