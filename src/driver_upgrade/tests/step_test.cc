#include "driver_upgrade/step.h"

#include <gtest/gtest.h>

#include "support_cases.h"

namespace pitcrew::driver_upgrade {
namespace {

using codec::Json;

TEST(Step, OneConditionalPatchOfAllThatChanges) {
  Step step;
  step.to = api::UpgradeState::kWaitForJobsRequired;
  step.unschedulable = true;
  step.annotations = {{"a", "1"}, {"b", std::nullopt}};
  EXPECT_EQ(PatchOf(step, "12"),
            (Json{{"metadata",
                   {{"resourceVersion", "12"},
                    {"labels", {{"nvidia.com/gpu-driver-upgrade-state", "wait-for-jobs-required"}}},
                    {"annotations", {{"a", "1"}, {"b", nullptr}}}}},
                  {"spec", {{"unschedulable", true}}}}));
}

TEST(Step, ReleasingRemovesTheLabelAndTheField) {
  Step step;
  step.to = api::UpgradeState::kNone;
  step.unschedulable = false;
  EXPECT_EQ(PatchOf(step, "12"),
            (Json{{"metadata",
                   {{"resourceVersion", "12"},
                    {"labels", {{"nvidia.com/gpu-driver-upgrade-state", nullptr}}}}},
                  {"spec", {{"unschedulable", nullptr}}}}));
  EXPECT_TRUE(NotesOf(step).empty());
}

TEST(Step, EventsAreUpstreams) {
  Step step;
  step.to = api::UpgradeState::kDone;
  step.annotations = {{"a", "1"}, {"b", std::nullopt}};
  step.events = {{true, "something"}};
  EXPECT_EQ(NotesOf(step),
            (std::vector<Note>{{false, "Successfully updated node annotation to a=1"},
                               {false, "Successfully updated node annotation to b=null"},
                               {false, "Successfully updated node state label to upgrade-done"},
                               {true, "something"}}));
}

// Only what the validator decides is worth another read of it.
TEST(Step, TheWayOutOfTheValidationRestsOnTheValidator) {
  using enum api::UpgradeState;
  const auto rests = [](api::UpgradeState from, std::optional<api::UpgradeState> to) {
    Step step;
    step.to = to;
    return RestsOnValidators(from, step);
  };
  for (const auto to : {kUncordonRequired, kDone, kFailed}) {
    EXPECT_TRUE(rests(kValidationRequired, to));
  }
  EXPECT_FALSE(rests(kValidationRequired, std::nullopt));
  EXPECT_TRUE(rests(kFailed, kUncordonRequired));
  EXPECT_TRUE(rests(kFailed, kDone));
  EXPECT_FALSE(rests(kFailed, kRequired)) << "another version is another try";
  EXPECT_FALSE(rests(kPodRestartRequired, kValidationRequired));
}

TEST(Step, ADrainLeavesPodsWithTheSkipLabelAlone) {
  RecordProperty("holds", "driver-lifecycle.md #56; operator-behaviour.md #55");
  EXPECT_EQ(DrainSelector({}), "nvidia.com/gpu-driver-upgrade-drain.skip!=true");
  EXPECT_EQ(DrainSelector(testing::PolicyOf({{"drain", {{"podSelector", "app=myapp"}}}})),
            "app=myapp,nvidia.com/gpu-driver-upgrade-drain.skip!=true");
}

}  // namespace
}  // namespace pitcrew::driver_upgrade
