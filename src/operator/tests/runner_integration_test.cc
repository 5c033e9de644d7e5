// The controllers together: when they know the cluster, on a real kube-apiserver.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <vector>

#include "codec/yaml.h"
#include "support_operator.h"

namespace pitcrew::gpu_operator::testing {
namespace {

using ::testing::ElementsAre;

class RunnerTest : public OperatorTest {
 protected:
  void Note(bool synced) {
    const std::lock_guard lock(mutex_);
    told_.push_back(synced);
  }
  [[nodiscard]] std::vector<bool> Told() const {
    const std::lock_guard lock(mutex_);
    return told_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<bool> told_;  // what /readyz says
};

// Not before everything has been listed, and not while that is done again because the cluster
// serves another kind.
TEST_F(RunnerTest, IsReadyWhileTheClusterIsKnown) {
  RunningOperator running(name_space_, [&](RunnerOptions& options) {
    options.synced = [&](bool synced) { Note(synced); };
  });
  ASSERT_TRUE(Eventually([&] { return Told().size() == 2; }));
  EXPECT_THAT(Told(), ElementsAre(false, true));
  DefineGpuClusters();
  ASSERT_TRUE(Eventually([&] { return Told().size() == 4; }));
  EXPECT_THAT(Told(), ElementsAre(false, true, false, true));
  running.Stop();
  EXPECT_TRUE(client_->Delete(kube::kCustomResourceDefinitions, Cluster("gpuclusters.nvidia.com")));
  EXPECT_TRUE(Eventually([&] { return !client_->Serves(desired::kGpuClusters).value_or(true); }));
}

}  // namespace
}  // namespace pitcrew::gpu_operator::testing
