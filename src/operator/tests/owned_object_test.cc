// Which changes of objects the roll-out of a policy looks at.
#include <gtest/gtest.h>

#include "api/labels.h"
#include "desired/owned_object.h"
#include "operator/policy/policy_controller.h"

namespace pitcrew::gpu_operator {
namespace {

using codec::Json;
using desired::DaemonSetStatus;
using desired::IsReady;
using desired::ReadOwned;

Json DaemonSet() {
  return {{"apiVersion", "apps/v1"},
          {"kind", "DaemonSet"},
          {"metadata",
           {{"name", "plugin"},
            {"uid", "7"},
            {"resourceVersion", "12"},
            {"generation", 2},
            {"labels", {{api::kStateLabel, "state-device-plugin"}}}}},
          {"spec", {{"template", {{"spec", {{"nodeSelector", {{"a", "b"}}}}}}}}},
          {"status",
           {{"observedGeneration", 2},
            {"desiredNumberScheduled", 3},
            {"updatedNumberScheduled", 3},
            {"numberAvailable", 3}}}};
}

bool IsSameAfter(const Json& before, const Json& patch) {
  Json after = before;
  after.merge_patch(patch);
  return IsSameForPolicy(ReadOwned(before), ReadOwned(after));
}

TEST(OwnedObject, OfDaemonSetsEverythingButBookkeepingCounts) {
  const Json before = DaemonSet();
  EXPECT_TRUE(IsSameAfter(
      before,
      {{"metadata", {{"resourceVersion", "13"}, {"managedFields", {{{"manager", "someone"}}}}}}}));
  EXPECT_TRUE(IsSameAfter(before, {{"status", {{"currentNumberScheduled", 3}}}}))
      << "nothing is decided by that";
  for (const char* number : {"observedGeneration", "desiredNumberScheduled",
                             "updatedNumberScheduled", "numberAvailable", "numberUnavailable"}) {
    EXPECT_FALSE(IsSameAfter(before, {{"status", {{number, 1}}}})) << number;
  }
  EXPECT_FALSE(IsSameAfter(before, {{"metadata", {{"generation", 3}}}}));
  EXPECT_FALSE(IsSameAfter(before, {{"metadata", {{"labels", {{"team", "x"}}}}}}));
  EXPECT_FALSE(IsSameAfter(before, {{"metadata", {{"labels", {{api::kStateLabel, nullptr}}}}}}));
  EXPECT_FALSE(IsSameAfter(
      before, {{"spec", {{"template", {{"spec", {{"nodeSelector", {{"a", "c"}}}}}}}}}}));
  EXPECT_FALSE(
      IsSameAfter(before, {{"metadata", {{"deletionTimestamp", "2026-01-01T00:00:00Z"}}}}));
}

// Somebody's ConfigMap that a policy names: what is in it, not what else stands with it.
TEST(OwnedObject, OfOthersConfigMapsTheDataCounts) {
  const Json before = {{"apiVersion", "v1"},
                       {"kind", "ConfigMap"},
                       {"metadata", {{"name", "plugin-config"}}},
                       {"data", {{"default", "version: v1"}}}};
  EXPECT_TRUE(IsSameAfter(before, {{"metadata", {{"labels", {{"team", "ml"}}}}}}));
  EXPECT_FALSE(IsSameAfter(before, {{"data", {{"default", "version: v2"}}}}));
  EXPECT_FALSE(IsSameAfter(before, {{"data", {{"more", ""}}}}));
  EXPECT_FALSE(IsSameAfter(before, {{"data", {{"default", nullptr}}}}));
  EXPECT_FALSE(IsSameAfter(before, {{"metadata", {{"deletionTimestamp", "2026-01-01T00:00:00Z"}}}}))
      << "it is about to go";
}

TEST(OwnedObject, ADaemonSetIsReadyWhenAllItsPodsAreNewAndAvailable) {
  const DaemonSetStatus ready{.generation = 2,
                              .observed_generation = 2,
                              .desired = 3,
                              .updated = 3,
                              .available = 3,
                              .unavailable = 0};
  EXPECT_TRUE(IsReady(ready));
  const auto with = [&](auto member, std::int64_t value) {
    DaemonSetStatus status = ready;
    status.*member = value;
    return IsReady(status);
  };
  EXPECT_FALSE(with(&DaemonSetStatus::observed_generation, 1)) << "the controller comes to it yet";
  EXPECT_TRUE(with(&DaemonSetStatus::observed_generation, 3));
  EXPECT_FALSE(with(&DaemonSetStatus::updated, 2));
  EXPECT_FALSE(with(&DaemonSetStatus::available, 2));
  EXPECT_FALSE(with(&DaemonSetStatus::unavailable, 1));
  EXPECT_TRUE(IsReady({.generation = 1, .observed_generation = 1})) << "no node is for it";
}

}  // namespace
}  // namespace pitcrew::gpu_operator
