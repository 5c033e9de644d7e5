#include "host/children.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.h"
#include "host/process.h"
#include "host/selinux.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::host {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;

TEST(Children, AreTheRunningOnesOfAParent) {
  const test_support::TemporaryFolder proc;
  const auto add = [&](const char* pid, const char* stat) {
    ASSERT_TRUE(base::WriteFileAtomically(proc.path() / pid / "stat", stat));
  };
  add("10", "10 (daemon) S 7 10 10 0 -1");
  add("11", "11 (has ended) Z 7 10 10 0 -1");
  add("12", "12 (another's) S 8 10 10 0 -1");
  add("9", "9 (a name) S 1 (7) R 7 10 10 0 -1");
  add("self", "10 (daemon) S 7 10 10 0 -1");
  add("13", "no stat at all");
  std::filesystem::create_directories(proc.path() / "14");  // ended while it was looked at
  const auto children = ListChildren(7, proc.path());
  ASSERT_TRUE(children) << children.error().ToString();
  EXPECT_THAT(*children, ElementsAre(9, 10));
}

TEST(Children, AProcessIsKnownByItsVariables) {
  const test_support::TemporaryFolder proc;
  ASSERT_TRUE(base::WriteFileAtomically(proc.path() / "10/environ",
                                        std::string("A=1\0PIPE=/mps/a/pipe\0", 21)));
  EXPECT_TRUE(*WasStartedWith(10, "PIPE=/mps/a/pipe", proc.path()));
  EXPECT_FALSE(*WasStartedWith(10, "PIPE=/mps/a", proc.path()));
  EXPECT_FALSE(*WasStartedWith(11, "A=1", proc.path()));
}

// As nvidia-cuda-mps-control -d: the program ends, and leaves a daemon in a session of its own.
TEST(Children, OrphansAreAdopted) {
  ASSERT_TRUE(AdoptOrphans());
  ProgramRun run;
  run.program = "/bin/sh";
  run.arguments = {"-c", "setsid sleep 1000 > /dev/null 2>&1 & echo $!"};
  run.capture_output = true;
  const auto end = RunProgram(run);
  ASSERT_TRUE(end) << end.error().ToString();
  const pid_t daemon = std::stoi(end->output);
  EXPECT_THAT(*ListChildren(::getpid()), Contains(daemon));
  ::kill(daemon, SIGKILL);
  EXPECT_EQ(::waitpid(daemon, nullptr, 0), daemon) << "its end is told to this process";
  EXPECT_THAT(*ListChildren(::getpid()), Not(Contains(daemon)));
  ::prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
}

TEST(Selinux, IsThereWithItsFileSystem) {
  const test_support::TemporaryFolder sys;
  EXPECT_FALSE(*HasSelinux(sys.path()));
  std::filesystem::create_directories(sys.path() / "fs/selinux");
  EXPECT_TRUE(*HasSelinux(sys.path()));
}

TEST(Selinux, AFolderThatIsGoneNeedsNoLabel) {
  const test_support::TemporaryFolder folder;
  const auto done = Relabel(folder.path() / "gone", kContainerFileLabel);
  EXPECT_TRUE(done) << done.error().ToString();
}

}  // namespace
}  // namespace pitcrew::host
