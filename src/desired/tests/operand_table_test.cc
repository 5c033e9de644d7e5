// The table of operands, and an operand from outside that everything derived from it knows.
#include "desired/operand_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "api/labels.h"
#include "codec/yaml.h"
#include "desired/node_labels.h"
#include "desired/owned_object.h"
#include "desired/removal.h"
#include "desired/testing/outside_operand.h"
#include "desired/testing/render_cluster.h"

namespace pitcrew::desired {
namespace {

using codec::Json;
using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

// --- the product's own table ---

// The manifest says the same as the descriptor: name and node selector of its DaemonSet, and the
// label "app" by which pods are waited for.
TEST(OperandTable, DescriptorsAgreeWithTheirManifests) {
  for (const Operand& operand : Operands()) {
    auto objects = Operands().LoadManifests(operand.state, true);
    ASSERT_TRUE(objects) << objects.error().ToString();
    const Object* daemonset = FindObject(*objects, "DaemonSet");
    ASSERT_EQ(daemonset == nullptr, operand.daemonsets.empty()) << operand.state;
    if (daemonset == nullptr) continue;
    EXPECT_EQ(codec::FindString(*daemonset, {"metadata", "name"}), operand.daemonsets.front());
    const Json* pod = codec::Find(*daemonset, {"spec", "template"});
    // Of what upstream gave up only the names are left.
    if (pod == nullptr) continue;
    if (operand.gpu_client == GpuClient::kPaused) {
      EXPECT_EQ(codec::FindString(*pod, {"metadata", "labels", "app"}), operand.daemonsets.front());
    }
    Json selector = {{std::string(operand.deploy.key), "true"}};
    if (!operand.node_label.empty()) selector[std::string(operand.node_label)] = "true";
    EXPECT_EQ(*codec::Find(*pod, {"spec", "nodeSelector"}), selector) << operand.state;
  }
}

// A block is its whole name, and what is in it.
TEST(OperandTable, OperandsReadTheirBlocksAndTheCommonOnes) {
  const auto driver = std::ranges::find(Operands(), "state-driver", &Operand::state);
  ASSERT_NE(driver, Operands().end());
  for (const char* path : {"spec", "spec.driver", "spec.driver.version", "spec.driver[0]",
                           "spec.daemonsets.tolerations[1].key"}) {
    EXPECT_TRUE(driver->Reads(path)) << path;
  }
  for (const char* path : {"spec.driverless", "spec.toolkit", "spec.toolkit.version", ""}) {
    EXPECT_FALSE(driver->Reads(path)) << path;
  }
}

TEST(OperandTable, NamesAreUnique) {
  std::set<std::string_view> names;
  std::set<std::string_view> states;
  std::set<std::string_view> conditions;
  std::set<std::string_view> daemonsets;
  std::size_t count = 0;
  for (const Operand& operand : Operands()) {
    ++count;
    names.insert(operand.name);
    states.insert(operand.state);
    conditions.insert(operand.condition);
    for (const std::string_view name : operand.daemonsets) {
      EXPECT_TRUE(daemonsets.insert(name).second) << name;
      EXPECT_EQ(Operands().OfDaemonSet(name), &operand) << name;
    }
  }
  EXPECT_EQ(names.size(), count);
  EXPECT_EQ(states.size(), count);
  EXPECT_EQ(conditions.size(), count);
}

// The toolkit's DaemonSets of all runtimes are the operand's.
TEST(OperandTable, EveryToolkitIsTheToolkits) {
  for (const Runtime runtime : kRuntimes) {
    EXPECT_THAT(Operands().Named("container toolkit").daemonsets,
                Contains(ToolkitDaemonSetName(runtime)));
  }
}

// driver-lifecycle.md section 4.5: the labels of that section's table, and the pods that are waited
// for.
TEST(OperandTable, PausedPods) {
  std::set<std::string> labels;
  std::set<std::string> apps;
  for (const PausedPods& paused : Operands().paused_pods()) {
    ASSERT_TRUE(paused.label.starts_with(api::kDeployPrefix)) << paused.label;
    labels.emplace(paused.label.substr(api::kDeployPrefix.size()));
    if (!paused.app.empty()) apps.emplace(paused.app);
  }
  EXPECT_EQ(labels, (std::set<std::string>{
                        "operator-validator", "container-toolkit", "device-plugin",
                        "gpu-feature-discovery", "dcgm-exporter", "dcgm", "dcgm-exporter-dra",
                        "dcgm-dra", "dra-validator", "nvsm", "mig-manager", "sandbox-validator",
                        "sandbox-device-plugin", "vgpu-device-manager", "client", "dra-driver"}));
  EXPECT_EQ(apps, (std::set<std::string>{
                      "nvidia-operator-validator", "nvidia-container-toolkit-daemonset",
                      "nvidia-container-toolkit-daemonset-containerd",
                      "nvidia-container-toolkit-daemonset-crio",
                      "nvidia-container-toolkit-daemonset-docker", "nvidia-device-plugin-daemonset",
                      "gpu-feature-discovery", "nvidia-dcgm-exporter", "nvidia-dcgm",
                      "nvidia-dcgm-exporter-dra", "nvidia-dcgm-dra", "nvidia-mig-manager",
                      "nvidia-sandbox-validator", "nvidia-sandbox-device-plugin-daemonset",
                      "nvidia-vgpu-device-manager", "nvidia-dra-driver-kubelet-plugin"}));
}

TEST(OperandTable, AppsOfDeployLabels) {
  EXPECT_EQ(Operands().AppsOf({api::kDeploySandboxDevicePlugin, api::kDeployVfioManager}),
            (std::set<std::string, std::less<>>{"nvidia-sandbox-device-plugin-daemonset",
                                                "nvidia-vfio-manager"}));
  EXPECT_EQ(Operands().AppsOf({"nvidia.com/gpu.deploy.client"}),
            (std::set<std::string, std::less<>>{}));
}

// clusterpolicy-api.md section 6.
TEST(OperandTable, ImageVariables) {
  const auto& variables = Operands().image_variables();
  EXPECT_EQ(
      std::set<std::string_view>(variables.begin(), variables.end()),
      (std::set<std::string_view>{
          "DRIVER_IMAGE", "VGPU_MANAGER_IMAGE", "CONTAINER_TOOLKIT_IMAGE", "DEVICE_PLUGIN_IMAGE",
          "DCGM_EXPORTER_IMAGE", "DCGM_IMAGE", "VALIDATOR_IMAGE", "GFD_IMAGE", "MIG_MANAGER_IMAGE",
          "DRIVER_MANAGER_IMAGE", "GDS_IMAGE", "GDRCOPY_IMAGE", "VFIO_MANAGER_IMAGE",
          "CC_MANAGER_IMAGE", "VGPU_DEVICE_MANAGER_IMAGE", "SANDBOX_DEVICE_PLUGIN_IMAGE",
          "KATA_SANDBOX_DEVICE_PLUGIN_IMAGE"}));
  EXPECT_EQ(std::set<std::string_view>(variables.begin(), variables.end()).size(),
            variables.size());
}

TEST(OperandTable, WhoLeavesForWhichChange) {
  EXPECT_THAT(Operands().LabelsLeavingFor(NodeChange::kMig),
              UnorderedElementsAre(api::kDeployDevicePlugin, api::kDeployGpuFeatureDiscovery,
                                   api::kDeployDcgmExporter, api::kDeployDcgm));
  EXPECT_THAT(Operands().LabelsLeavingFor(NodeChange::kVgpu),
              UnorderedElementsAre(api::kDeploySandboxDevicePlugin, api::kDeploySandboxValidator));
  EXPECT_THAT(
      Operands().LabelsLeavingFor(NodeChange::kCc),
      UnorderedElementsAre(api::kDeployVfioManager, api::kDeployVgpuManager,
                           api::kDeploySandboxValidator, api::kDeploySandboxDevicePlugin,
                           api::kDeployVgpuDeviceManager, api::kDeployKataSandboxDevicePlugin));
}

// --- an operand from outside ---

struct Outside {
  explicit Outside(bool wanted, const OperandTable& table = testing::TableWithOutsideOperand())
      : operands(table),
        policy(*api::ReadClusterPolicy(testing::MinimalPolicy({{"psa", {{"enabled", wanted}}}}))),
        facts(testing::ReadCluster(testing::PlainCluster())),
        images({{std::string(testing::kOutsideImage), "registry.test/frobnicator:v1"}}) {}

  [[nodiscard]] std::vector<RenderedOperand> Render() const {
    return desired::Render({.policy = policy,
                            .facts = facts,
                            .images = images,
                            .operator_namespace = "gpu-operator",
                            .operands = operands});
  }

  const OperandTable& operands;
  api::ClusterPolicy policy;
  Facts facts;
  DefaultImages images;
};

Node FirstNode() { return *ReadNode(testing::PlainCluster()["nodes"][0]); }

TEST(OutsideOperand, ItsLabelIsSetAndSwept) {
  const auto& table = testing::TableWithOutsideOperand();
  const std::string key(testing::kOutsideLabel);
  const auto labels = [&](const Node& node, const NodePolicy& policy) {
    return DecideNode(node, policy, table).labels;
  };
  EXPECT_EQ(labels(FirstNode(), {}).at(key), "true");
  Node labelled = FirstNode();
  labelled.labels.Add(key, "true");
  EXPECT_THAT(labels(labelled, {}), Not(Contains(::testing::Key(key))));
  labelled.labels.Add(api::kWorkloadConfig, "vm-vgpu");
  NodePolicy machines;
  machines.sandbox_enabled = true;
  EXPECT_EQ(labels(labelled, machines).at(key), std::nullopt);
  EXPECT_THAT(DecideNode(FirstNode(), {}).labels, Not(Contains(::testing::Key(key))));
}

TEST(OutsideOperand, ItsImageIsReadAndRendered) {
  const auto read = ReadDefaultImages(
      testing::TableWithOutsideOperand().image_variables(),
      [](const std::string& name) -> std::optional<std::string> { return name + ":v2"; });
  EXPECT_EQ(read.at(std::string(testing::kOutsideImage)), "FROBNICATOR_IMAGE:v2");

  const auto rendered = Outside(true).Render();
  const RenderedOperand& last = rendered.back();
  ASSERT_EQ(last.operand->state, testing::kOutsideState);
  ASSERT_TRUE(last.objects) << last.objects.error().ToString();
  ASSERT_EQ(last.objects->size(), 2U);
  const Json& daemonset = last.objects->back();
  EXPECT_EQ(testing::ContainerOf(daemonset, "frobnicator-ctr")["image"],
            "registry.test/frobnicator:v1");
  EXPECT_EQ(daemonset["metadata"]["labels"][std::string(api::kStateLabel)], "state-frobnicator");
  EXPECT_EQ(daemonset["metadata"]["ownerReferences"][0]["kind"], "ClusterPolicy");
}

TEST(OutsideOperand, SwitchedOffItIsRemoved) {
  const Outside on(true);
  std::vector<StandingObject> standing;
  for (const RenderedOperand& rendered : on.Render()) {
    // The others lack their images here.
    if (rendered.operand->state != testing::kOutsideState) continue;
    ASSERT_TRUE(rendered.objects) << rendered.objects.error().ToString();
    for (const Json& object : *rendered.objects) {
      Json unlabelled = object;  // as somebody else may have left it
      unlabelled["metadata"].erase("labels");
      standing.push_back(StandingOf(*KindOf(object), unlabelled, on.operands));
      EXPECT_EQ(standing.back().state, testing::kOutsideState);
    }
  }
  const auto removed = [&](const Outside& outside) {
    return DecideRemovals(outside.Render(), standing, outside.policy.uid, outside.operands);
  };
  EXPECT_THAT(removed(on), IsEmpty());
  const auto removals = removed(Outside(false));
  ASSERT_EQ(removals.size(), 2U);
  EXPECT_EQ(removals[0].reason, RemovalReason::kSwitchedOff);
  // A version without the operand removes what the one before had.
  EXPECT_EQ(removed(Outside(true, Operands()))[0].reason, RemovalReason::kNoSuchOperand);
}

TEST(OutsideOperand, ItsPodsLeaveBeforeTheDriverChanges) {
  EXPECT_TRUE(std::ranges::any_of(
      testing::TableWithOutsideOperand().paused_pods(), [](const PausedPods& paused) {
        return paused.label == testing::kOutsideLabel && paused.app == "nvidia-frobnicator";
      }));
}

}  // namespace
}  // namespace pitcrew::desired
