#include "base/child_process.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace pitcrew::base {
namespace {

TEST(ChildProcess, TheEndIsAnEvent) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(7);
  auto child = ChildProcess::Watch(pid);
  ASSERT_TRUE(child);
  pollfd entry{child->fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&entry, 1, 20'000), 1);
  const int status = child->Reap();
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_EQ(ShellStatus(status), 7);
}

TEST(ChildProcess, ASignalIsAStatusAsInAShell) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::pause();
    ::_exit(0);
  }
  auto child = ChildProcess::Watch(pid);
  ASSERT_TRUE(child);
  child->Kill();
  EXPECT_EQ(ShellStatus(child->Reap()), 128 + SIGKILL);
}

TEST(ChildProcess, DroppedBeforeItsEndItIsKilledAndReaped) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::pause();
    ::_exit(0);
  }
  {
    const auto child = ChildProcess::Watch(pid);
    ASSERT_TRUE(child);
  }
  EXPECT_EQ(::waitpid(pid, nullptr, WNOHANG), -1) << "reaped already";
}

}  // namespace
}  // namespace pitcrew::base
