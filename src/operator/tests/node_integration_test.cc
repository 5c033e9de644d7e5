// The node controller against a real kube-apiserver: one node is one key, one patch per change.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "desired/node_labels.h"
#include "support_admission.h"

namespace pitcrew::gpu_operator::testing {
namespace {

class NodeTest : public OperatorTest {
 protected:
  [[nodiscard]] std::string Deploy(const std::string& node, const std::string& name) const {
    return Label(node, "nvidia.com/gpu.deploy." + name);
  }
  void SetLabel(const std::string& node, const std::string& key, const Json& value) {
    Merge(kube::kNodes, Cluster(node), {{"metadata", {{"labels", {{key, value}}}}}});
  }
};

// operator-behaviour.md #29 and section 7.4: the sets are swapped, in both directions.
TEST_F(NodeTest, WorkloadChangesToMachinesAndBack) {
  RecordProperty("holds", "operator-behaviour.md #29");
  RecordProperty("holds", "operator-behaviour.md #29");
  CreateGpuNode("gpu-1");
  CreatePolicy("cluster-policy", "{sandboxWorkloads: {enabled: true}}");
  const RunningOperator running(name_space_);
  ASSERT_TRUE(Eventually([&] { return Deploy("gpu-1", "driver") == "true"; }));
  constexpr const char* kWorkload = "nvidia.com/gpu.workload.config";
  SetLabel("gpu-1", kWorkload, "vm-passthrough");
  ASSERT_TRUE(Eventually([&] { return Deploy("gpu-1", "vfio-manager") == "true"; }));
  EXPECT_EQ(Deploy("gpu-1", "sandbox-device-plugin"), "true");
  EXPECT_EQ(Deploy("gpu-1", "driver"), "(none)");
  EXPECT_EQ(Deploy("gpu-1", "device-plugin"), "(none)");
  SetLabel("gpu-1", kWorkload, "vm-vgpu");
  ASSERT_TRUE(Eventually([&] { return Deploy("gpu-1", "vgpu-manager") == "true"; }));
  EXPECT_EQ(Deploy("gpu-1", "vfio-manager"), "(none)");
  SetLabel("gpu-1", kWorkload, nullptr);
  ASSERT_TRUE(Eventually([&] { return Deploy("gpu-1", "driver") == "true"; }));
  EXPECT_EQ(Deploy("gpu-1", "vgpu-manager"), "(none)");
  EXPECT_EQ(Deploy("gpu-1", "sandbox-device-plugin"), "(none)");
}

// #29: a person's value stays; operands=false takes all away, and gives all back.
TEST_F(NodeTest, OverridesOfAPersonAreRespected) {
  CreateGpuNode("gpu-1");
  SetLabel("gpu-1", "nvidia.com/gpu.deploy.dcgm", "false");
  CreatePolicy("cluster-policy");
  const RunningOperator running(name_space_);
  ASSERT_TRUE(Eventually([&] { return Deploy("gpu-1", "driver") == "true"; }));
  EXPECT_EQ(Deploy("gpu-1", "dcgm"), "false");
  SetLabel("gpu-1", "nvidia.com/gpu.deploy.operands", "false");
  ASSERT_TRUE(Eventually([&] { return Deploy("gpu-1", "driver") == "(none)"; }));
  EXPECT_EQ(Label("gpu-1", "nvidia.com/gpu.present"), "true");
  SetLabel("gpu-1", "nvidia.com/gpu.deploy.operands", nullptr);
  ASSERT_TRUE(Eventually([&] { return Deploy("gpu-1", "driver") == "true"; }));
  // A label that somebody takes away comes back.
  SetLabel("gpu-1", "nvidia.com/gpu.deploy.driver", nullptr);
  EXPECT_TRUE(Eventually([&] { return Deploy("gpu-1", "driver") == "true"; }));
}

// Killed while it had paused operands and cordoned the node, it takes that back when it comes
// again; when drivers are switched off it does not.
TEST_F(NodeTest, WhatADriverManagerLeftIsTakenBackWhereNoneComesAgain) {
  CreateGpuNode("gpu-1");
  SetLabel("gpu-1", "nvidia.com/gpu.deploy.device-plugin", "paused-for-driver-upgrade");
  Merge(
      kube::kNodes, Cluster("gpu-1"),
      {{"metadata", {{"annotations", {{std::string(desired::kCordonedByDriverManager), "true"}}}}},
       {"spec", {{"unschedulable", true}}}});
  CreatePolicy("cluster-policy");
  const RunningOperator running(name_space_);
  ASSERT_TRUE(Eventually([&] { return Deploy("gpu-1", "driver") == "true"; }));
  EXPECT_EQ(Deploy("gpu-1", "device-plugin"), "paused-for-driver-upgrade");
  Merge(desired::kClusterPolicies, Cluster("cluster-policy"),
        {{"spec", {{"driver", {{"enabled", false}}}}}});
  ASSERT_TRUE(Eventually([&] { return Deploy("gpu-1", "device-plugin") == "true"; }));
  const auto node = client_->Get(kube::kNodes, Cluster("gpu-1"));
  ASSERT_TRUE(node);
  EXPECT_EQ(codec::Find(*node, {"spec", "unschedulable"}), nullptr);
  EXPECT_EQ(codec::Find(*node, {"metadata", "annotations", desired::kCordonedByDriverManager}),
            nullptr);
}

// Nobody would carry it out: the driver manager divides GPUs before a driver comes.
TEST_F(NodeTest, ASplitThatHasNoEffectIsToldOnce) {
  CreateGpuNode("gpu-1");
  SetLabel("gpu-1", "nvidia.com/gpu.deploy.driver", "pre-installed");
  Merge(kube::kNodes, Cluster("gpu-1"),
        {{"metadata", {{"annotations", {{std::string(desired::kMachineGpus), "0000:65:00.0"}}}}}});
  CreatePolicy("cluster-policy", "{sandboxWorkloads: {enabled: true}}");
  RunningOperator running(name_space_);
  const auto told = [&](std::string_view why) {
    std::int64_t count = 0;
    const auto events = client_->List(kube::kEvents, "default");
    if (!events) return count;
    for (const Json& event : events->items) {
      if (codec::FindString(event, {"reason"}) == "GpuSplitIgnored" &&
          codec::FindString(event, {"involvedObject", "name"}) == "gpu-1" &&
          codec::FindString(event, {"message"}).find(why) != std::string::npos) {
        count += event.value("count", 1);
      }
    }
    return count;
  };
  ASSERT_TRUE(Eventually([&] { return told("a driver of its own") == 1; }));
  EXPECT_EQ(Deploy("gpu-1", "sandbox-device-plugin"), "(none)");
  SetLabel("gpu-1", "nvidia.com/gpu.workload.config", "vm-passthrough");
  EXPECT_TRUE(Eventually([&] { return told("vm-passthrough") == 1; }));
  running.Stop();
  EXPECT_EQ(told("a driver of its own"), 1);
}

// #33, better: one patch for a new node instead of two passes; and no other node is touched.
TEST_F(NodeTest, ANewNodeIsOnePatch) {
  for (int i = 1; i <= 20; ++i) CreateGpuNode("gpu-" + std::to_string(i));
  CreatePolicy("cluster-policy", "{driver: {upgradePolicy: {autoUpgrade: true}}}");
  const RunningOperator running(name_space_);
  ASSERT_TRUE(ReachesReady("cluster-policy"));
  // What the start has set off has come to its end.
  std::uint64_t before = 0;
  int unchanged = 0;
  ASSERT_TRUE(Eventually([&] {
    const auto now = running.requests("patch");
    unchanged = std::exchange(before, now) == now ? unchanged + 1 : 0;
    return unchanged == 25;
  }));
  CreateGpuNode("gpu-21");
  ASSERT_TRUE(Eventually([&] { return Deploy("gpu-21", "driver") == "true"; }));
  EXPECT_EQ(Label("gpu-21", "nvidia.com/gpu.present"), "true");
  const auto object = client_->Get(kube::kNodes, Cluster("gpu-21"));
  ASSERT_TRUE(object);
  EXPECT_EQ(codec::FindString(*object,
                              {"metadata", "annotations", "nvidia.com/gpu-driver-upgrade-enabled"}),
            "true");  // #36
  EXPECT_EQ(running.requests("patch"), before + 1);
}

// operator-behaviour.md #34, better: a node that cannot be patched is tried again by itself and
// holds up no other.
TEST_F(NodeTest, OneNodeThatCannotBePatchedHoldsUpNoOther) {
  RecordProperty("holds", "operator-behaviour.md #34");
  std::optional<AdmissionRule> rule(
      std::in_place, client_, "no-labels-" + name_space_, "", "nodes",
      "!('nvidia.com/gpu.present' in object.metadata.labels) || object.metadata.name != 'gpu-1'");
  CreateGpuNode("gpu-1");
  // The server needs a moment until the rule holds.
  ASSERT_TRUE(Eventually([&] {
    return !client_->Patch(kube::kNodes, Cluster("gpu-1"), kube::PatchType::kMerge,
                           {{"metadata", {{"labels", {{"nvidia.com/gpu.present", "true"}}}}}},
                           {.dry_run = true});
  }));
  for (int i = 2; i <= 5; ++i) CreateGpuNode("gpu-" + std::to_string(i));
  CreatePolicy("cluster-policy");
  const RunningOperator running(name_space_);
  for (int i = 2; i <= 5; ++i) {
    EXPECT_TRUE(Eventually([&] { return Deploy("gpu-" + std::to_string(i), "driver") == "true"; }));
  }
  EXPECT_TRUE(Eventually([&] {
    return running.Value("controller_runtime_reconcile_errors_total{controller=\"nodes\"}") > 0;
  }));
  EXPECT_EQ(Deploy("gpu-1", "driver"), "(none)");
  rule.reset();
  EXPECT_TRUE(Eventually([&] { return Deploy("gpu-1", "driver") == "true"; }));
}

// --- No pod before the GPUs have passed (docs/qualification.md)
// -----------------------------------

class QualificationGateTest : public NodeTest {
 protected:
  static constexpr const char* kState = "nvidia.com/gpu-operator.qualification";

  [[nodiscard]] std::vector<std::string> Taints(const std::string& node) const {
    std::vector<std::string> keys;
    const auto object = client_->Get(kube::kNodes, Cluster(node));
    const Json* taints = object ? codec::Find(*object, {"spec", "taints"}) : nullptr;
    if (taints == nullptr) return keys;
    for (const Json& taint : *taints) {
      keys.push_back(codec::FindString(taint, {"key"}) + ":" +
                     codec::FindString(taint, {"effect"}));
    }
    return keys;
  }
  [[nodiscard]] bool IsHeld(const std::string& node) const {
    const auto taints = Taints(node);
    return std::ranges::find(taints, kHeld) != taints.end();
  }
  void Taint(const std::string& node, const Json& taints) {
    Merge(kube::kNodes, Cluster(node), {{"spec", {{"taints", taints}}}});
  }

  // Of the DaemonSet that the operator has made.
  [[nodiscard]] std::string ValidatorImage() const {
    const auto validator = client_->Get(kube::kDaemonSets, Own("nvidia-operator-validator"));
    if (!validator) return "";
    const Json& pod = validator->at("spec").at("template").at("spec");
    return codec::FindString(pod.at("containers").at(0), {"image"});
  }

  static constexpr const char* kHeld = "nvidia.com/gpu-operator.not-qualified:NoSchedule";
  static constexpr const char* kRequired = "{validator: {qualification: {required: true}}}";
};

TEST_F(QualificationGateTest, ANodeThatJoinsWaitsForItsProof) {
  // It runs pods with GPUs already, as far as anybody can tell.
  CreateGpuNode("runs");
  Merge(kube::kNodes, Cluster("runs"),
        {{"status",
          {{"capacity", {{"nvidia.com/gpu", "8"}}}, {"allocatable", {{"nvidia.com/gpu", "8"}}}}}},
        "status");
  CreateGpuNode("joins");
  Taint("joins", {{{"key", "team"}, {"value", "a"}, {"effect", "NoSchedule"}}});
  CreatePolicy("cluster-policy", kRequired);
  const RunningOperator running(name_space_);
  ASSERT_TRUE(Eventually([&] { return Label("joins", kState) == "pending"; }));
  EXPECT_THAT(Taints("joins"), ::testing::ElementsAre("team:NoSchedule", kHeld));
  ASSERT_TRUE(Eventually([&] { return Deploy("runs", "driver") == "true"; }));
  EXPECT_FALSE(IsHeld("runs"));
  EXPECT_EQ(Label("runs", kState), "(none)");

  // A node that failed stays held; one that is tested again and passes does not.
  SetLabel("joins", kState, "failed");
  CreateGpuNode("another");
  ASSERT_TRUE(Eventually([&] { return IsHeld("another"); }));
  EXPECT_TRUE(IsHeld("joins"));
  SetLabel("joins", kState, "passed");
  ASSERT_TRUE(Eventually([&] { return !IsHeld("joins"); }));
  EXPECT_THAT(Taints("joins"), ::testing::ElementsAre("team:NoSchedule"));

  // Operands come to nodes that are held, and bring the test.
  ASSERT_TRUE(
      Eventually([&] { return Exists(kube::kDaemonSets, Own("nvidia-operator-validator")); }));
  const auto validator = client_->Get(kube::kDaemonSets, Own("nvidia-operator-validator"));
  const Json& pod = validator->at("spec").at("template").at("spec");
  EXPECT_EQ(pod.at("tolerations").back().at("key"), "nvidia.com/gpu-operator.not-qualified");
  EXPECT_EQ(pod.at("initContainers").at(2).at("name"), "qualification");
}

TEST_F(QualificationGateTest, SwitchedOffNoNodeIsHeld) {
  for (int i = 1; i <= 5; ++i) CreateGpuNode("gpu-" + std::to_string(i));
  CreatePolicy("cluster-policy", kRequired);
  const RunningOperator running(name_space_);
  const auto held = [&] {
    int count = 0;
    for (int i = 1; i <= 5; ++i) count += IsHeld("gpu-" + std::to_string(i)) ? 1 : 0;
    return count;
  };
  ASSERT_TRUE(Eventually([&] { return held() == 5; }));
  MergeSpec("cluster-policy", "{validator: {qualification: {required: false}}}");
  ASSERT_TRUE(Eventually([&] { return held() == 0; }));
  EXPECT_TRUE(Eventually([&] { return Label("gpu-5", kState) == "(none)"; }));
  // Nodes that are known by then are not held when it is switched on again. A node and a policy
  // come on two watches: the policy has to be the first, as the image that it names shows.
  MergeSpec("cluster-policy",
            "{validator: {repository: example.com, image: validator, version: again, "
            "qualification: {required: true}}}");
  ASSERT_TRUE(Eventually([&] { return ValidatorImage().ends_with(":again"); }));
  CreateGpuNode("gpu-6");
  ASSERT_TRUE(Eventually([&] { return IsHeld("gpu-6"); }));
  EXPECT_EQ(held(), 0);
}

TEST_F(QualificationGateTest, TheTaintLeavesWithThePolicy) {
  CreateGpuNode("gpu-1");
  CreatePolicy("cluster-policy", kRequired);
  const RunningOperator running(name_space_);
  ASSERT_TRUE(Eventually([&] { return IsHeld("gpu-1"); }));
  ASSERT_TRUE(client_->Delete(desired::kClusterPolicies, Cluster("cluster-policy")));
  EXPECT_TRUE(Eventually([&] { return !IsHeld("gpu-1"); }));
  EXPECT_TRUE(Eventually([&] { return Label("gpu-1", kState) == "(none)"; }));
}

}  // namespace
}  // namespace pitcrew::gpu_operator::testing
