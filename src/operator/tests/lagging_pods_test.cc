#include "operator/roll_out/lagging_pods.h"

#include <gtest/gtest.h>

namespace pitcrew::gpu_operator {
namespace {

TEST(LaggingPods, LooksAreRarerTheMoreTheyCost) {
  EXPECT_EQ(LookInterval(1, 0), std::chrono::seconds(1));
  EXPECT_EQ(LookInterval(10000, 0), std::chrono::seconds(30));
  EXPECT_EQ(LookInterval(1, 3), std::chrono::seconds(8));
  EXPECT_EQ(LookInterval(10000, 100), std::chrono::minutes(5));
}

}  // namespace
}  // namespace pitcrew::gpu_operator
