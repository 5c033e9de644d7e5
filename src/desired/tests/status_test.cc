// The status of a ClusterPolicy: its conditions, and what is told of their changes.
#include "desired/status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.h"

namespace pitcrew::desired {
namespace {

using codec::Json;
using ::testing::HasSubstr;

OperandReport Report(std::string_view state, Verdict verdict) {
  OperandReport report;
  report.state = state;
  report.condition = "XReady";
  report.verdict = verdict;
  report.reason = "R";
  report.message = "m";
  return report;
}

TEST(Status, ConditionsOfAPolicyThatIsNotReady) {
  RecordProperty("holds", "operator-behaviour.md #14 [TestClusterPolicyNotReadyMessage], #52");
  PolicyOutcome outcome;
  outcome.nfd_labels = outcome.gpu_nodes = true;
  outcome.operands = {Report("state-container-toolkit", Verdict::kNotReady),
                      Report("state-device-plugin", Verdict::kNotReady),
                      Report("state-driver", Verdict::kReady)};
  const auto now = *base::ParseRfc3339("2026-01-02T03:04:05Z");
  const Json status = MakeStatus(outcome, "gpu-operator", 4, nullptr, now);
  EXPECT_EQ(status["state"], "notReady");
  EXPECT_EQ(status["namespace"], "gpu-operator");
  EXPECT_EQ(status["conditions"][0]["type"], "Ready");
  EXPECT_EQ(status["conditions"][0]["status"], "False");
  EXPECT_EQ(status["conditions"][0]["reason"], "Error");
  EXPECT_EQ(status["conditions"][0]["message"], "");
  EXPECT_EQ(status["conditions"][1]["type"], "Error");
  EXPECT_EQ(status["conditions"][1]["reason"], "OperandNotReady");
  EXPECT_EQ(status["conditions"][1]["message"],
            "ClusterPolicy is not ready; states not ready: [state-container-toolkit "
            "state-device-plugin]");
  EXPECT_EQ(status["conditions"][1]["observedGeneration"], 4);
}

// The time of a condition is that of its last change; equal input gives an equal status.
TEST(Status, TimesChangeWithTheStatusOnly) {
  RecordProperty("holds", "operator-behaviour.md #52");
  PolicyOutcome outcome;
  outcome.nfd_labels = outcome.gpu_nodes = true;
  outcome.operands = {Report("state-driver", Verdict::kReady)};
  const auto first = *base::ParseRfc3339("2026-01-02T03:04:05Z");
  const auto later = *base::ParseRfc3339("2026-01-02T04:00:00Z");
  const Json ready = MakeStatus(outcome, "n", 1, nullptr, first);
  EXPECT_EQ(ready["state"], "ready");
  EXPECT_EQ(ready["conditions"][0]["reason"], "Reconciled");
  EXPECT_EQ(ready["conditions"][1]["reason"], "Ready");
  EXPECT_EQ(MakeStatus(outcome, "n", 1, ready, later), ready);
  EXPECT_TRUE(TransitionsBetween(ready, ready).empty());

  outcome.operands[0].verdict = Verdict::kFailed;
  const Json failed = MakeStatus(outcome, "n", 1, ready, later);
  EXPECT_EQ(failed["conditions"][0]["lastTransitionTime"], "2026-01-02T04:00:00Z");
  EXPECT_EQ(failed["conditions"][1]["reason"], "ReconcileFailed");
  EXPECT_EQ(failed["conditions"][1]["message"], "Failed to reconcile state-driver: m");
  EXPECT_EQ(TransitionsBetween(ready, failed).size(), 2U);
}

// Facts that cannot be read: the operands are not gone, and nobody is told of twenty changes.
TEST(Status, WhatNobodyLookedAtIsUnknown) {
  const auto now = *base::ParseRfc3339("2026-01-02T03:04:05Z");
  PolicyOutcome known;
  known.nfd_labels = known.gpu_nodes = true;
  for (const Operand& operand : Operands()) {
    OperandReport report = Report(operand.state, Verdict::kReady);
    report.condition = operand.condition;
    known.operands.push_back(report);
  }
  const Json before = MakeStatus(known, "n", 1, nullptr, now);
  PolicyOutcome outcome;
  outcome.failures = {"read ImageStream driver-toolkit: forbidden"};
  const Json status = MakeStatus(outcome, "n", 1, before, now);
  ASSERT_EQ(status["conditions"].size(), before["conditions"].size());
  for (const Json& condition : status["conditions"]) {
    if (condition["type"] == "Ready" || condition["type"] == "Error") continue;
    EXPECT_EQ(condition["status"], "Unknown") << condition["type"];
    EXPECT_EQ(condition["message"], "read ImageStream driver-toolkit: forbidden");
  }
  const auto went = TransitionsBetween(before, status);
  ASSERT_EQ(went.size(), 1U);
  EXPECT_EQ(went[0].type, "Ready");
  const auto came = TransitionsBetween(status, before);
  ASSERT_EQ(came.size(), 1U);
  EXPECT_EQ(came[0].type, "Ready");
  // One that is found to be behind is news.
  known.operands[0].verdict = Verdict::kNotReady;
  EXPECT_EQ(TransitionsBetween(status, MakeStatus(known, "n", 1, status, now)).size(), 1U);
}

TEST(Status, AFieldThatSeveralOperandsShareIsToldOnce) {
  PolicyOutcome outcome;
  outcome.operands = {Report("state-container-toolkit", Verdict::kFailed),
                      Report("state-driver", Verdict::kFailed),
                      Report("state-dcgm", Verdict::kFailed)};
  outcome.operands[1].message = "another";
  const Json status = MakeStatus(outcome, "n", 1, nullptr, base::WallClock::now());
  EXPECT_EQ(status["conditions"][1]["message"],
            "Failed to reconcile state-container-toolkit, state-dcgm: m; "
            "Failed to reconcile state-driver: another");
}

TEST(Status, ReasonsOfReadyAndIgnored) {
  PolicyOutcome outcome;
  const auto now = base::WallClock::now();
  EXPECT_EQ(MakeStatus(outcome, "n", 1, nullptr, now)["conditions"][0]["reason"],
            "NFDLabelsMissing");
  outcome.nfd_labels = true;
  EXPECT_EQ(MakeStatus(outcome, "n", 1, nullptr, now)["conditions"][0]["reason"], "NoGPUNodes");
  const Json ignored = MakeIgnoredStatus("other", "n", 1, nullptr, now);
  EXPECT_EQ(ignored["state"], "ignored");
  EXPECT_THAT(ignored["conditions"][0]["message"].get<std::string>(), HasSubstr("other"));
}

TEST(Status, ProgressIsAChangeOfMessagesOnly) {
  PolicyOutcome outcome;
  outcome.nfd_labels = outcome.gpu_nodes = true;
  outcome.operands = {Report("state-driver", Verdict::kNotReady)};
  const auto now = base::WallClock::now();
  const Json first = MakeStatus(outcome, "n", 1, nullptr, now);
  outcome.operands[0].message = "4 of 5 pods are ready";
  const Json second = MakeStatus(outcome, "n", 1, first, now);
  EXPECT_NE(first, second);
  EXPECT_TRUE(OnlyMessagesDiffer(first, second));
  EXPECT_TRUE(TransitionsBetween(first, second).empty());
  // Another generation, reason or state is news at once.
  EXPECT_FALSE(OnlyMessagesDiffer(first, MakeStatus(outcome, "n", 2, first, now)));
  outcome.operands[0].verdict = Verdict::kReady;
  EXPECT_FALSE(OnlyMessagesDiffer(first, MakeStatus(outcome, "n", 1, first, now)));
  EXPECT_FALSE(OnlyMessagesDiffer(nullptr, first));
}

// Twenty operands that roll out together are one event; what is wrong is one each.
TEST(Status, AnnouncementsAreFew) {
  const std::vector<Transition> transitions = {
      {.type = "Ready",
       .is_true = false,
       .reason = "OperandNotReady",
       .message = "states not ready"},
      {.type = "DriverReady", .is_true = false, .reason = "RollingOut", .message = "a"},
      {.type = "DCGMReady", .is_true = false, .reason = "RollingOut", .message = "b"},
      {.type = "ToolkitReady", .is_true = true, .reason = "Ready", .message = "c"},
      {.type = "GFDReady", .is_true = false, .reason = "InvalidImage", .message = "spec.gfd: d"},
      {.type = "NodeLabelsReady", .is_true = false, .reason = "MassRemovalHeld", .message = "e"}};
  const std::vector<Announcement> expected = {
      {false, "OperandNotReady", "Ready: states not ready"},
      {true, "InvalidImage", "GFDReady: spec.gfd: d"},
      {true, "MassRemovalHeld", "NodeLabelsReady: e"},
      {false, "Ready", "ToolkitReady: c"},
      {false, "RollingOut", "DriverReady, DCGMReady are False now"}};
  EXPECT_EQ(Announce(transitions), expected);
}

// A wrong field that is replaced by another wrong field is news; a hold that ends is, too.
TEST(Status, TransitionsWithoutAChangeOfStatus) {
  PolicyOutcome outcome;
  outcome.nfd_labels = outcome.gpu_nodes = true;
  outcome.removals_held = "3 of 5";
  outcome.operands = {Report("state-driver", Verdict::kFailed)};
  const auto now = base::WallClock::now();
  const Json first = MakeStatus(outcome, "n", 1, nullptr, now);
  outcome.operands[0].message = "spec.driver.other: wrong";
  const auto transitions = TransitionsBetween(first, MakeStatus(outcome, "n", 2, first, now));
  ASSERT_EQ(transitions.size(), 1U);
  EXPECT_EQ(transitions[0].message, "spec.driver.other: wrong");
  outcome.operands[0].message = "m";
  outcome.removals_held = "";
  const auto ended = TransitionsBetween(first, MakeStatus(outcome, "n", 1, first, now));
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].reason, "RemovalsGoOn");
  EXPECT_TRUE(ended[0].is_true);
}

}  // namespace
}  // namespace pitcrew::desired
