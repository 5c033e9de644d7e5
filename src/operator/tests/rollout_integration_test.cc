// What a roll-out does with objects that vanish right after they were written.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "operator/roll_out/rollout.h"
#include "support_operator.h"

namespace pitcrew::gpu_operator::testing {
namespace {

class RolloutTest : public OperatorTest {
 protected:
  [[nodiscard]] std::string Uid(const kube::ResourceKind& kind, const ObjectKey& key) const {
    const auto object = client_->Get(kind, key);
    return object ? codec::FindString(*object, {"metadata", "uid"}) : "";
  }
};

// What was written a moment ago, and is not there, is waited for only until the watch tells that it
// was deleted.
TEST_F(RolloutTest, WhatVanishesRightAfterItWasWrittenComesBackAtOnce) {
  CreateGpuNode("gpu-1");
  CreatePolicy("cluster-policy");
  const RunningOperator running(name_space_);
  ASSERT_TRUE(ReachesReady("cluster-policy"));
  const ObjectKey probe = Own("nvidia-driver-startup-probe");
  // The time until it is there again.
  const auto vanish = [&] {
    const std::string uid = Uid(kube::kConfigMaps, probe);
    const auto start = std::chrono::steady_clock::now();
    EXPECT_TRUE(client_->Delete(kube::kConfigMaps, probe));
    EXPECT_TRUE(Eventually([&] {
      const std::string now = Uid(kube::kConfigMaps, probe);
      return !now.empty() && now != uid;
    }));
    return std::chrono::steady_clock::now() - start;
  };
  vanish();
  // A busy machine may need long for one; never for all of five.
  auto fastest = vanish();
  for (int tries = 1; tries < 5 && fastest > kEchoTimeout / 2; ++tries) {
    fastest = std::min(fastest, vanish());
  }
  EXPECT_LT(fastest, kEchoTimeout / 2);
}

}  // namespace
}  // namespace pitcrew::gpu_operator::testing
