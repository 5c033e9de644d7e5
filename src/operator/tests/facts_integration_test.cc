// Facts about the cluster that change while the operator runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support_operator.h"

namespace pitcrew::gpu_operator::testing {
namespace {

using ::testing::HasSubstr;

constexpr const char* kToolkitLabel = "nvidia.com/gpu.deploy.container-toolkit";

// Better than operator-behaviour.md section 21 ("Runtime detection assumes one runtime per
// cluster"): a node of another runtime gets a toolkit of its own, and the one that runs is not
// touched.
TEST_F(OperatorTest, NodesOfAnotherRuntimeGetTheirOwnToolkit) {
  CreateGpuNode("gpu-1", "cri-o://1.33.0");
  CreatePolicy("cluster-policy");
  const RunningOperator running(name_space_);
  ASSERT_TRUE(ReachesReady("cluster-policy"));
  const ObjectKey main = Own("nvidia-container-toolkit-daemonset");
  const ObjectKey other = Own("nvidia-container-toolkit-daemonset-containerd");
  const auto version = [&] {
    const auto object = client_->Get(kube::kDaemonSets, main);
    return object ? codec::FindString(*object, {"metadata", "uid"}) + " " +
                        codec::Find(*object, {"metadata", "generation"})->dump()
                  : "(none)";
  };
  const std::string before = version();
  EXPECT_EQ(Label("gpu-1", kToolkitLabel), "true");
  EXPECT_FALSE(Exists(kube::kDaemonSets, other));

  CreateGpuNode("gpu-2", "containerd://2.2.0");
  ASSERT_TRUE(Eventually([&] { return Exists(kube::kDaemonSets, other); }));
  EXPECT_TRUE(Eventually([&] { return Label("gpu-2", kToolkitLabel) == "containerd"; }));
  EXPECT_TRUE(ReachesReady("cluster-policy"));
  EXPECT_EQ(version(), before);
  EXPECT_EQ(Label("gpu-1", kToolkitLabel), "true");

  ASSERT_TRUE(client_->Delete(kube::kNodes, Cluster("gpu-2")));
  EXPECT_TRUE(Eventually([&] { return !Exists(kube::kDaemonSets, other); }));
  EXPECT_EQ(version(), before);
}

}  // namespace
}  // namespace pitcrew::gpu_operator::testing
