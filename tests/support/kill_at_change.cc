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

// Runs `work` in a child process until it begins its change `number`. 0 when it made fewer.
pid_t StopAtChange(int number, const std::function<void()>& work) {
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
  while (Continue(child)) {
    __ptrace_syscall_info call{};
    ::ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof(call), &call);
    if (call.op != PTRACE_SYSCALL_INFO_ENTRY) continue;
    if ((IsChange(call) || IsWrite(call)) && --number == 0) return child;
  }
  return 0;
}

}  // namespace

bool KillAtChange(int number, const std::function<void()>& work) {
  const pid_t child = StopAtChange(number, work);
  if (child == 0) return false;
  int status = 0;
  ::kill(child, SIGKILL);
  ::waitpid(child, &status, 0);
  return true;
}

bool InterruptAtChange(int number, const std::function<void()>& work,
                       const std::function<void()>& meanwhile) {
  const pid_t child = StopAtChange(number, work);
  if (child == 0) return false;
  meanwhile();
  while (Continue(child)) {
  }
  return true;
}

}  // namespace pitcrew::test_support
