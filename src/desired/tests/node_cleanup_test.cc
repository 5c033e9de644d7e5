#include "desired/node_cleanup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codec/yaml.h"

namespace pitcrew::desired {
namespace {

using codec::Json;
using ::testing::IsEmpty;

// What is left of a node's labels and annotations, and whether it takes pods again.
Json Left(const std::string& node_yaml) {
  Json node = *codec::ParseYaml(node_yaml);
  node.merge_patch(CleanupPatch(DecideCleanup(node), node));
  return node;
}

// operator-behaviour.md section 20: what the operator writes goes, whatever its value.
TEST(NodeCleanup, WhatTheOperatorWroteGoes) {
  const Json node = Left(R"(
metadata:
  name: n
  labels:
    kubernetes.io/hostname: "n"
    nvidia.com/gpu.present: "true"
    nvidia.com/gpu.deploy.driver: pre-installed
    nvidia.com/gpu.deploy.device-plugin: "true"
    nvidia.com/gpu.deploy.dcgm: ""
    nvidia.com/gpu.deploy.nvsm: ""
    nvidia.com/gpu.deploy.dra-driver: "true"
    nvidia.com/gpu.deploy.container-toolkit: crio
    nvidia.com/gpu.deploy.operator-validator: paused-for-driver-upgrade
    nvidia.com/gpu.deploy.dcgm-exporter: paused-for-mig-change
    nvidia.com/gpu.deploy.sandbox-validator: paused-for-vgpu-change
    nvidia.com/gpu-operator.driver.owner: default
    nvidia.com/gpu-driver-upgrade-state: upgrade-done
    nvidia.com/mig.config: all-disabled
    nvidia.com/mig.config.state: success
    nvidia.com/vgpu.config.state: success
    nvidia.com/gpu-operator.qualification: failed
  annotations:
    nvidia.com/gpu-driver-upgrade-enabled: "true"
    nvidia.com/gpu-operator.qualification: "{}"
    nvidia.com/gpu-driver-upgrade.driver-wait-for-safe-load: "yes"
    nvidia.com/gpu-driver-upgrade-wait-for-pod-completion-start-time: "1"
    nvidia.com/gpu-driver-upgrade-validation-start-time: "1"
    nvidia.com/gpu-driver-upgrade-requestor-mode: "true"
    nvidia.com/gpu-driver-upgrade.node-initial-state.unschedulable: "true"
)");
  EXPECT_EQ(node["metadata"]["labels"], Json({{"kubernetes.io/hostname", "n"}}));
  EXPECT_EQ(node["metadata"]["annotations"], Json::object());
}

TEST(NodeCleanup, TheCordonOfADriverManagerGoes) {
  const Json node = Left(R"(
metadata:
  name: gpu-1
  annotations: {nvidia.com/gpu-driver-manager.cordoned: "true"}
spec: {unschedulable: true}
)");
  EXPECT_EQ(node["metadata"]["annotations"], Json::object());
  EXPECT_FALSE(node["spec"].contains("unschedulable"));
}

// A person's settings are found again by a new installation.
TEST(NodeCleanup, WhatAPersonSetStays) {
  const std::string text = R"(
metadata:
  name: n
  labels:
    nvidia.com/gpu.deploy.driver: "false"
    nvidia.com/gpu.deploy.operands: "true"
    nvidia.com/gpu.deploy.nvsm: "true"
    nvidia.com/gpu.deploy.dcgm: maintenance
    nvidia.com/gpu.deploy.client: crio
    nvidia.com/gpu.deploy.container-toolkit: maintenance
    nvidia.com/gpu.workload.config: vm-vgpu
    nvidia.com/gpu-driver-upgrade.skip: "true"
    nvidia.com/mig.config: all-1g.10gb
    nvidia.com/vgpu.config: A100-40C
  annotations:
    nvidia.com/gpu-driver-upgrade-requested: "true"
)";
  EXPECT_TRUE(DecideCleanup(*codec::ParseYaml(text)).empty());
}

// Labels of feature discovery belong to its NodeFeature.
TEST(NodeCleanup, LabelsOfDiscoveryAreNotTouched) {
  EXPECT_TRUE(DecideCleanup(*codec::ParseYaml(R"(
metadata:
  name: n
  labels:
    feature.node.kubernetes.io/pci-10de.present: "true"
    nvidia.com/gpu.product: NVIDIA-A100-SXM4-40GB
    nvidia.com/gpu.count: "8"
    nvidia.com/mig.capable: "true"
)"))
                  .empty());
}

// A value that was put aside for the time of an upgrade comes back.
TEST(NodeCleanup, APausedSettingIsRestored) {
  const Json node = Left(R"(
metadata:
  name: n
  labels:
    nvidia.com/gpu.deploy.dcgm: maintenance_paused-for-driver-upgrade
    nvidia.com/gpu.deploy.client: true_paused-for-driver-upgrade
)");
  EXPECT_EQ(node["metadata"]["labels"], Json({{"nvidia.com/gpu.deploy.dcgm", "maintenance"}}));
}

// A node that an upgrade cordoned takes pods again; one that a person cordoned before does not.
TEST(NodeCleanup, CordonsOfAnUpgradeGo) {
  const auto uncordons = [](const std::string& state, const std::string& annotations,
                            const std::string& unschedulable) {
    return DecideCleanup(
               *codec::ParseYaml(
                   "metadata: {name: gpu-1, labels: {nvidia.com/gpu-driver-upgrade-state: " +
                   state + "}, annotations: {" + annotations +
                   "}}\nspec: {unschedulable: " + unschedulable + "}"))
        .uncordon;
  };
  for (const char* state :
       {"cordon-required", "wait-for-jobs-required", "pod-deletion-required", "drain-required",
        "pod-restart-required", "validation-required", "uncordon-required", "upgrade-failed"}) {
    EXPECT_TRUE(uncordons(state, "", "true")) << state;
  }
  for (const char* state : {"upgrade-required", "upgrade-done", "node-maintenance-required"}) {
    EXPECT_FALSE(uncordons(state, "", "true")) << state;
  }
  EXPECT_FALSE(uncordons("drain-required", "", "false"));
  // Queued once more, after a failure that left its cordon.
  EXPECT_TRUE(
      uncordons("upgrade-required", "nvidia.com/gpu-driver-upgrade-failed-revision: 5d7f", "true"));
  EXPECT_FALSE(uncordons("drain-required",
                         "nvidia.com/gpu-driver-upgrade.node-initial-state.unschedulable: \"true\"",
                         "true"));
}

// Nobody would qualify the node's GPUs; taints of others stay.
TEST(NodeCleanup, ANodeIsHeldForNoQualification) {
  const std::string held = R"(
metadata: {name: gpu-1, resourceVersion: "17"}
spec:
  taints:
  - {key: nvidia.com/gpu, value: present, effect: NoSchedule}
  - {key: nvidia.com/gpu-operator.not-qualified, effect: NoSchedule}
)";
  const Json node = Left(held);
  EXPECT_EQ(node["spec"]["taints"],
            Json({{{"key", "nvidia.com/gpu"}, {"value", "present"}, {"effect", "NoSchedule"}}}));
  const auto object = *codec::ParseYaml(held);
  EXPECT_TRUE(HasTraces(*ReadNode(object)));
  // Whoever changes taints meanwhile is not overwritten.
  EXPECT_EQ(CleanupPatch(DecideCleanup(object), object)["metadata"]["resourceVersion"], "17");
  EXPECT_FALSE(Left("metadata: {name: gpu-1}\nspec: {taints: [{key: "
                    "nvidia.com/gpu-operator.not-qualified, effect: NoSchedule}]}")["spec"]
                   .contains("taints"));
}

TEST(NodeCleanup, ANodeWithoutTracesIsNotWritten) {
  EXPECT_TRUE(DecideCleanup({{"metadata", {{"name", "n"}}}}).empty());
  EXPECT_TRUE(DecideCleanup(Json::object()).empty());
  Json node = {{"metadata", {{"name", "n"}}}};
  EXPECT_FALSE(HasTraces(*ReadNode(node)));
  node["metadata"]["annotations"] = {{"nvidia.com/gpu-driver-upgrade-enabled", "true"}};
  EXPECT_TRUE(HasTraces(*ReadNode(node)));
}

}  // namespace
}  // namespace pitcrew::desired
