#include "node/mig/hooks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "simulation/testing/test_node.h"

namespace pitcrew::node::mig {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

Hooks One(Hook hook) { return {.version = "v1", .by_name = {{"apply-start", {std::move(hook)}}}}; }

class HooksTest : public ::testing::Test {
 protected:
  ~HooksTest() override { fs::remove_all(folder_); }
  [[nodiscard]] std::string Written() const { return base::ReadFile(file_).value_or("(none)"); }

  const fs::path folder_ = simulation::MakeTemporaryFolder();
  const std::string file_ = folder_ / "written";
};

TEST_F(HooksTest, OutputIsShownWhenAskedFor) {
  RecordProperty("holds", "mig-manager.md #16");
  const Hooks hooks = One({.command = "/bin/sh", .arguments = {"-c", "echo Hello"}});
  ::testing::internal::CaptureStdout();
  const auto shown = RunHooks(hooks, kApplyStart, {}, true);
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "Hello\n");
  EXPECT_TRUE(shown) << shown.error().ToString();
  ::testing::internal::CaptureStdout();
  EXPECT_TRUE(RunHooks(hooks, kApplyStart, {}, false));
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
}

TEST_F(HooksTest, AMissingProgramIsAnError) {
  RecordProperty("holds", "mig-manager.md #16");
  const auto run = RunHooks(One({.command = "/no/such/program"}), kApplyStart, {}, true);
  ASSERT_FALSE(run);
  EXPECT_THAT(run.error().message, HasSubstr("error running apply-start hook"));
  EXPECT_FALSE(RunHooks(One({.command = "no-such-program"}), kApplyStart, {}, true));
  EXPECT_FALSE(RunHooks(One({}), kApplyStart, {}, true));
}

TEST_F(HooksTest, AreWrittenAndReadAgain) {
  RecordProperty("holds", "mig-manager.md #17");
  Hooks hooks{.version = "v1"};
  for (const auto* name : {"apply-start", "apply-exit"}) {
    hooks.by_name[name] = {{.command = "/bin/one",
                            .arguments = {"a", "b"},
                            .environment = {{"K", "v"}},
                            .working_folder = "/tmp"},
                           {.command = "two"}};
  }
  const auto again = ParseHooks(ToYamlText(hooks), "hooks.yaml");
  ASSERT_TRUE(again) << again.error().ToString();
  EXPECT_EQ(*again, hooks);
}

TEST_F(HooksTest, OtherNamesAndMembersAreLeftOut) {
  const auto hooks = ParseHooks(
      "bogus: 1\nhooks:\n  sometime:\n  - {command: /bin/false, also: 2}\n", "hooks.yaml");
  ASSERT_TRUE(hooks) << hooks.error().ToString();
  EXPECT_TRUE(RunHooks(*hooks, kApplyStart, {}, true));
  EXPECT_TRUE(ParseHooks("", "hooks.yaml")) << "nothing is no hooks";
}

TEST_F(HooksTest, MistakesAreNamedWithTheirPlace) {
  for (const auto& [text, word] : std::initializer_list<std::pair<const char*, const char*>>{
           {"hooks: [a]", "hooks"},
           {"hooks:\n  apply-start: {}", "apply-start"},
           {"hooks:\n  apply-start:\n  - {args: 1}", "args"},
           {"hooks:\n  apply-start:\n  - {envs: {A: 1}}", "envs"},
           {"hooks:\n  apply-start:\n  - {command: [a]}", "command"}}) {
    const auto hooks = ParseHooks(text, "hooks.yaml");
    ASSERT_FALSE(hooks) << text;
    EXPECT_EQ(hooks.error().reason, "InvalidHooks") << text;
    EXPECT_THAT(hooks.error().message, HasSubstr("hooks.yaml:")) << text;
    EXPECT_THAT(hooks.error().message, HasSubstr(word)) << text;
  }
}

TEST_F(HooksTest, TheVariablesOfTheFlagsWinAndNothingElseIsInherited) {
  ::setenv("PITCREW_TEST_INHERITED", "yes", 1);
  const Hooks hooks =
      One({.command = "/bin/sh",
           .arguments = {"-c", "echo \"$A $B [$PITCREW_TEST_INHERITED]\" > " + file_},
           .environment = {{"A", "own"}, {"B", "own"}}});
  const auto run = RunHooks(hooks, kApplyStart, {{"B", "flag"}}, true);
  ::unsetenv("PITCREW_TEST_INHERITED");
  ASSERT_TRUE(run) << run.error().ToString();
  EXPECT_EQ(Written(), "own flag []\n");
}

TEST_F(HooksTest, AHookStartsInItsFolder) {
  const Hooks hooks = One(
      {.command = "sh", .arguments = {"-c", "pwd > written"}, .working_folder = folder_.string()});
  const auto run = RunHooks(hooks, kApplyStart, {}, true);
  ASSERT_TRUE(run) << run.error().ToString();
  EXPECT_EQ(Written(), folder_.string() + "\n");
}

TEST_F(HooksTest, TheFirstThatFailsEndsTheList) {
  Hooks hooks = One({.command = "/bin/sh", .arguments = {"-c", "echo why >&2; exit 3"}});
  hooks.by_name["apply-start"].push_back({.command = "/bin/sh", .arguments = {"-c", "> " + file_}});
  const auto run = RunHooks(hooks, kApplyStart, {}, false);
  ASSERT_FALSE(run);
  EXPECT_THAT(run.error().message, HasSubstr("status 3: why"));
  EXPECT_EQ(Written(), "(none)");
}

}  // namespace
}  // namespace pitcrew::node::mig
