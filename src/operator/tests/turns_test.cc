// Turns of several pools in one pass (driver-lifecycle.md section 2.7).
#include "operator/upgrade/turns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pitcrew::gpu_operator {
namespace {

using ::testing::HasSubstr;

// The order of one driver goes by a label that is not read yet: for the others, and for what is
// measured, that is no reason to wait.
TEST(Turns, APoolWhoseOrderIsNotKnownYetHoldsNoOther) {
  const auto client = kube::Client::Create({.server = "http://127.0.0.1:1"});
  ASSERT_TRUE(client);
  World world(*client, "gpu-operator", {});
  Metrics metrics;
  kube::EventRecorder events(*client, "test", "test");
  const DriverPods pods(world);
  ImageChecks image_checks(world, events, pods);
  Turns turns(world, metrics, pods, image_checks, [] {});
  UpgradePool ordered;
  ordered.driver = "ordered";
  ordered.enabled = true;
  ordered.policy.schedule.order.label = "example.com/zone";
  UpgradePool other;
  other.driver = "other";
  other.enabled = other.unclear = true;
  other.problem = "told";
  const auto given = turns.Give({ordered, other}, {});
  ASSERT_FALSE(given) << "the first is asked again";
  EXPECT_EQ(given.error().reason, "NodeLabelsNotRead");
  EXPECT_EQ(turns.stopped("other"), "told");
  EXPECT_THAT(metrics.Render(), HasSubstr("gpu_operator_driver_auto_upgrade_enabled 1\n"));
}

}  // namespace
}  // namespace pitcrew::gpu_operator
