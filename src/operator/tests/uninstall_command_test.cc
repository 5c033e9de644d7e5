// The command lines of the programs that the chart's hooks run: what they ask for, and when they do
// nothing at all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "operator/command.h"

namespace pitcrew::gpu_operator {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Program = int (*)(int, char**);

struct Ended {
  int status = 0;
  std::string output;
  std::string errors;
};

Ended Execute(Program program, std::vector<std::string> words) {
  words.insert(words.begin(), "program");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  Ended ended;
  ended.status = program(static_cast<int>(arguments.size()), arguments.data());
  ended.output = ::testing::internal::GetCapturedStdout();
  ended.errors = ::testing::internal::GetCapturedStderr();
  return ended;
}

class HookPrograms : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"OPERATOR_NAMESPACE", "GPUCLUSTER_NAME", "DEBUG"}) ::unsetenv(name);
  }
};

TEST_F(HookPrograms, HelpIsAllThatIsDoneWhenItIsAskedFor) {
  const std::pair<Program, const char*> programs[] = {
      {ManageCrdsCommand, "--force"},
      {UninstallCommand, "--policy"},
      {CleanupGpuClustersCommand, "--gpucluster-name"}};
  for (const auto& [program, flag] : programs) {
    const Ended ended = Execute(program, {"--help"});
    EXPECT_EQ(ended.status, 0) << flag;
    EXPECT_THAT(ended.output, HasSubstr(flag));
    EXPECT_THAT(ended.errors, IsEmpty());
  }
}

TEST_F(HookPrograms, WhatIsMissingOrWrongIsSaidBeforeAnythingIsDone) {
  const struct {
    Program program;
    std::vector<std::string> words;
    const char* said;
  } cases[] = {{ManageCrdsCommand, {}, "manage-crds apply"},
               {ManageCrdsCommand, {"remove"}, "manage-crds delete"},
               {ManageCrdsCommand, {"apply", "delete"}, "manage-crds apply"},
               {UninstallCommand, {"-n", "gpu-operator"}, "--policy NAME, or --all"},
               {UninstallCommand,
                {"-n", "gpu-operator", "--policy", "a", "--all"},
                "--policy NAME, or --all"},
               {UninstallCommand, {"--all"}, "--namespace"},
               {UninstallCommand, {"-n", "gpu-operator", "--all", "--timeout", "soon"}, "\"soon\""},
               {UninstallCommand, {"-n", "gpu-operator", "--all", "--timeout", "0s"}, "\"0s\""},
               {CleanupGpuClustersCommand, {}, "--gpucluster-name"}};
  for (const auto& [program, words, said] : cases) {
    const Ended ended = Execute(program, words);
    EXPECT_EQ(ended.status, kUsage) << ::testing::PrintToString(words);
    EXPECT_THAT(ended.errors, HasSubstr(said)) << ::testing::PrintToString(words);
  }
}

// A command line that is right goes on to the cluster's address, which is looked for where it says.
TEST_F(HookPrograms, ARightCommandLineFailsOnlyForWhatItNeeds) {
  const std::string nowhere = "/nonexistent/kubeconfig";
  const std::pair<Program, std::vector<std::string>> cases[] = {
      {ManageCrdsCommand, {"apply"}},
      {ManageCrdsCommand, {"delete"}},
      {UninstallCommand, {"-n", "gpu-operator", "--all", "--timeout", "1m"}},
      {UninstallCommand, {"-n", "gpu-operator", "--policy", "a"}},
      {CleanupGpuClustersCommand, {"--gpucluster-name", "a"}}};
  for (auto [program, words] : cases) {
    words.insert(words.end(), {"--kubeconfig", nowhere});
    const Ended ended = Execute(program, words);
    EXPECT_EQ(ended.status, kFailure) << ::testing::PrintToString(words);
    EXPECT_THAT(ended.errors, HasSubstr(nowhere)) << ::testing::PrintToString(words);
  }
}

}  // namespace
}  // namespace pitcrew::gpu_operator
