#include "host/process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "base/child_process.h"
#include "base/file.h"
#include "base/file_descriptor.h"
#include "tests/support/patience.h"

namespace pitcrew::host {
namespace {

using namespace std::chrono_literals;
using ::testing::EndsWith;

ProgramRun Shell(const std::string& script) {
  ProgramRun run;
  run.program = "/bin/sh";
  run.arguments = {"-c", script};
  run.capture_output = true;
  run.deadline = std::chrono::steady_clock::now() + test_support::kPatience;
  return run;
}

TEST(Process, GivesExitStatusAndBothOutputs) {
  auto run = Shell("printf '%s' \"$GREETING\"; echo problem >&2; exit 3");
  run.environment = {{"GREETING", "hello"}};
  const auto end = RunProgram(run);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->exit_status, 3);
  EXPECT_EQ(end->output, "hello");
  EXPECT_EQ(end->error_output, "problem\n");
}

TEST(Process, ASignalIsAnExitStatusAsInAShell) {
  EXPECT_EQ(RunProgram(Shell("kill -TERM $$"))->exit_status, 128 + SIGTERM);
}

TEST(Process, NothingOfOursReachesAProgramOfTheHost) {
  ::setenv("PITCREW_SECRET", "secret", 1);
  auto run = Shell("echo \"<$PITCREW_SECRET>$PATH\"; read line; echo \"$?\"");
  run.inherit_environment = false;
  EXPECT_EQ(*ReadProgramOutput(run),
            "<>/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n1\n")
      << "no variable, and nothing to read from standard input";
  ::unsetenv("PITCREW_SECRET");
}

TEST(Process, OwnVariablesAreInheritedUnlessTheyAreSet) {
  ::setenv("PITCREW_KEPT", "kept", 1);
  ::setenv("PITCREW_SET", "ours", 1);
  auto run = Shell("echo \"$PITCREW_KEPT $PITCREW_SET\"");
  run.environment = {{"PITCREW_SET", "given"}};
  EXPECT_EQ(*ReadProgramOutput(run), "kept given\n");
  ::unsetenv("PITCREW_KEPT");
  ::unsetenv("PITCREW_SET");
}

TEST(Process, AFailureTellsStatusAndReason) {
  const auto failed = ReadProgramOutput(Shell("echo broken >&2; exit 3"));
  EXPECT_EQ(failed.error().reason, "ProgramFailed");
  EXPECT_THAT(failed.error().message, EndsWith("ended with status 3: broken"));
}

TEST(Process, AMissingProgramIsNotFound) {
  ProgramRun run;
  run.program = "/nonexistent/program";
  EXPECT_EQ(RunProgram(run).error().code, base::Code::kNotFound);
}

TEST(Process, ToldToStopKillsTheProgram) {
  int pipe_ends[2];
  ASSERT_EQ(::pipe(pipe_ends), 0);
  ::close(pipe_ends[1]);  // readable: at its end
  auto run = Shell("sleep 1000");
  run.stop_fd = pipe_ends[0];
  EXPECT_EQ(RunProgram(run).error().code, base::Code::kCancelled);
  ::close(pipe_ends[0]);
}

TEST(Process, TheDeadlineCountsWhileOutputFlows) {
  auto run = Shell("while :; do echo more; done");
  run.most_output = 1U << 30;
  run.deadline = std::chrono::steady_clock::now() + 50ms;
  EXPECT_EQ(RunProgram(run).error().code, base::Code::kTimeout);
}

TEST(Process, TheDeadlineCountsAfterTheOutputIsClosed) {
  auto run = Shell("exec >&- 2>&-; sleep 1000");
  run.deadline = std::chrono::steady_clock::now() + 50ms;
  EXPECT_EQ(RunProgram(run).error().code, base::Code::kTimeout);
}

TEST(Process, OutputBeyondTheBoundEndsTheProgram) {
  auto run = Shell("while :; do echo more; done");
  run.most_output = 1000;
  run.deadline.reset();
  EXPECT_EQ(RunProgram(run).error().reason, "ProgramOutputTooLong");
}

TEST(Process, OfEndlessErrorsTheLastOnesAreKept) {
  const auto end = RunProgram(
      Shell("i=0; while [ $i -lt 5000 ]; do echo \"error $i\" >&2; i=$((i+1)); done; echo done"));
  ASSERT_TRUE(end);
  EXPECT_EQ(end->output, "done\n");
  EXPECT_THAT(end->error_output, EndsWith("error 4999\n"));
  EXPECT_LT(end->error_output.size(), 16384U + 8192U);
}

TEST(Process, WhatTheProgramLeftBehindIsNotWaitedFor) {
  auto run = Shell("sleep 1000 & echo $!");
  const auto end = RunProgram(run);
  ASSERT_TRUE(end) << end.error().ToString();
  const pid_t left = std::stoi(end->output);
  EXPECT_EQ(::kill(left, SIGKILL), 0) << "it was not killed with the program";
}

TEST(Process, WhatTheProgramStartedIsKilledWithIt) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  auto run = Shell("sleep 1000 & wait");  // both hold the pipe's writing end
  run.capture_output = false;
  run.deadline = std::chrono::steady_clock::now() + 50ms;
  EXPECT_EQ(RunProgram(run).error().code, base::Code::kTimeout);
  ::close(ends[1]);
  char byte = 0;
  EXPECT_EQ(::read(ends[0], &byte, 1), 0) << "nobody has the pipe open any more";
  ::close(ends[0]);
}

TEST(Process, AnOpenFileIsExecuted) {
  const base::FileDescriptor shell(::open("/bin/sh", O_PATH | O_CLOEXEC));
  auto run = Shell("echo \"$0\"");
  run.program = "named";
  run.executable = shell.get();
  EXPECT_EQ(*ReadProgramOutput(run), "named\n");
}

TEST(Process, ReadsTheInputThatItIsGiven) {
  auto run = Shell("cat; echo '|'");
  run.input = "no newline at the end";
  EXPECT_EQ(*ReadProgramOutput(run), "no newline at the end|\n");
  run.input = std::string(4096, 'x');
  EXPECT_EQ(ReadProgramOutput(run)->size(), 4096U + 2U);
  run.input += 'x';
  EXPECT_EQ(ReadProgramOutput(run).error().reason, "ProgramInputTooLong");
}

TEST(Process, OfAGroupTheWholeGroupIsKilled) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  int told[2];
  ASSERT_EQ(::pipe(told), 0);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::setpgid(0, 0);
    if (::fork() != 0) (void)!::write(told[1], "1", 1);
    ::pause();
    ::_exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::read(told[0], &byte, 1), 1);
  {
    const auto child = base::ChildProcess::Watch(pid, base::KillScope::kGroup);
    ASSERT_TRUE(child);
  }
  ::close(ends[1]);
  EXPECT_EQ(::read(ends[0], &byte, 1), 0) << "child and grandchild have gone";
  for (const int end : {ends[0], told[0], told[1]}) ::close(end);
}

TEST(FindStandardProgram, IsAPathInsideTheRoot) {
  char folder[] = "/tmp/pitcrew-process-XXXXXX";
  ASSERT_NE(::mkdtemp(folder), nullptr);
  const Root root{std::filesystem::path(folder)};
  EXPECT_EQ(FindStandardProgram(root, "systemctl").error().code, base::Code::kNotFound);
  ASSERT_TRUE(base::WriteFileAtomically(root.At("/usr/bin/systemctl"), "#!/bin/sh\n", 0755));
  EXPECT_EQ(*FindStandardProgram(root, "systemctl"), "/usr/bin/systemctl");
  std::filesystem::remove_all(folder);
}

TEST(FindProgramInPath, TakesTheFirstFolderThatHasIt) {
  char folder[] = "/tmp/pitcrew-process-XXXXXX";
  ASSERT_NE(::mkdtemp(folder), nullptr);
  const std::filesystem::path base(folder);
  ASSERT_TRUE(base::WriteFileAtomically(base / "a/tool", "not executable", 0644));
  ASSERT_TRUE(base::WriteFileAtomically(base / "b/tool", "#!/bin/sh\n", 0755));
  const std::string before = ::getenv("PATH");
  ::setenv("PATH", (":" + (base / "a").string() + ":" + (base / "b").string()).c_str(), 1);
  EXPECT_EQ(*FindProgramInPath("tool"), base / "b/tool");
  const auto missing = FindProgramInPath("other");
  EXPECT_EQ(missing.error().code, base::Code::kNotFound);
  EXPECT_NE(missing.error().message.find((base / "a").string()), std::string::npos);
  ::setenv("PATH", before.c_str(), 1);
  std::filesystem::remove_all(base);
}

}  // namespace
}  // namespace pitcrew::host
