// How long a hook may take, in a thousandth of the time.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string>

#include "shim/cdi_hook.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::shim {

// Set in a child that is not to wait for its time limit.
static bool seconds_are_milliseconds = false;

}  // namespace pitcrew::shim

// The C library's, for all of this program.
extern "C" unsigned alarm(unsigned seconds) noexcept {
  itimerval timer{};
  if (pitcrew::shim::seconds_are_milliseconds) {
    timer.it_value.tv_usec = static_cast<suseconds_t>(seconds) * 1000;
  } else {
    timer.it_value.tv_sec = seconds;
  }
  itimerval before{};
  ::setitimer(ITIMER_REAL, &timer, &before);
  return static_cast<unsigned>(before.it_value.tv_sec);
}

namespace pitcrew::shim {
namespace {

// A container's files can keep a hook busy for ever; its start must not wait as long.
TEST(TimeLimit, AHookEndsAtIt) {
  const test_support::TemporaryFolder folder;
  const auto fifo = folder.path() / "state";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  // The hook waits for what never comes: somebody could still write it.
  const int end = ::open(fifo.c_str(), O_RDWR | O_CLOEXEC);
  const pid_t child = ::fork();
  if (child == 0) {
    seconds_are_milliseconds = true;
    std::string spec = "--container-spec=" + fifo.string();
    std::array<char*, 3> argv = {const_cast<char*>("nvidia-cdi-hook"),
                                 const_cast<char*>("update-ldcache"), spec.data()};
    ::_exit(RunCdiHook(argv.size(), argv.data()));
  }
  pollfd ended{static_cast<int>(::syscall(SYS_pidfd_open, child, 0)), POLLIN, 0};
  EXPECT_EQ(::poll(&ended, 1, 60'000), 1) << "it has no time limit";
  ::kill(child, SIGKILL);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 1);
  ::close(ended.fd);
  ::close(end);
}

}  // namespace
}  // namespace pitcrew::shim
