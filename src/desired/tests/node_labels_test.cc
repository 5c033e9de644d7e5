#include "desired/node_labels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/labels.h"
#include "kube/projection.h"

namespace pitcrew::desired {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using LabelMap = std::map<std::string, std::string>;

Node MakeNode(const LabelMap& labels, const LabelMap& annotations = {}) {
  codec::Json object = {{"metadata", {{"name", "n"}, {"labels", labels}}}};
  object["metadata"]["annotations"] = annotations;
  return *ReadNode(object);
}

LabelMap GpuNode(LabelMap more = {}) {
  more.emplace("feature.node.kubernetes.io/pci-10de.present", "true");
  more.emplace("nvidia.com/gpu.present", "true");
  return more;
}

std::string Deploy(const std::string& name) { return "nvidia.com/gpu.deploy." + name; }

// The short names of deploy labels that a decision sets or removes.
std::vector<std::string> Deployed(const NodeDecision& decision, bool set) {
  std::vector<std::string> names;
  for (const auto& [key, value] : decision.labels) {
    if (key.starts_with(api::kDeployPrefix) && value.has_value() == set) {
      names.push_back(key.substr(api::kDeployPrefix.size()));
    }
  }
  return names;
}

constexpr const char* kContainerSet[] = {
    "driver", "gpu-feature-discovery", "container-toolkit",    "device-plugin",     "dcgm",
    "client", "dcgm-exporter",         "node-status-exporter", "operator-validator"};

NodePolicy Sandbox(const std::string& workload, const std::string& mode = "kubevirt") {
  NodePolicy policy;
  policy.sandbox_enabled = true;
  policy.default_workload = *WorkloadNamed(workload);
  policy.sandbox_mode = mode;
  return policy;
}

// Other labels of node feature discovery stand on every node here, which is the evidence that it
// has looked.
TEST(NodeLabels, GpuPresent) {
  RecordProperty("holds", "operator-behaviour.md #28 [TestReconcileCommonGPULabel]");
  struct Row {
    bool pci;
    const char* before;   // null: absent
    const char* written;  // null: nothing
  };
  constexpr Row kRows[] = {{true, nullptr, "true"},   {true, "false", "true"},
                           {true, "other", "true"},   {true, "true", nullptr},
                           {false, "true", "false"},  {false, nullptr, nullptr},
                           {false, "false", nullptr}, {false, "other", nullptr}};
  for (const Row& row : kRows) {
    LabelMap labels = {{"feature.node.kubernetes.io/kernel-version.full", "6.1.0"}};
    if (row.pci) labels["feature.node.kubernetes.io/pci-0302_10de.present"] = "true";
    if (row.before != nullptr) labels["nvidia.com/gpu.present"] = row.before;
    const NodeDecision decision = DecideNode(MakeNode(labels), {});
    const auto written = decision.labels.find("nvidia.com/gpu.present");
    SCOPED_TRACE(::testing::Message() << "pci " << row.pci << " before "
                                      << (row.before == nullptr ? "absent" : row.before));
    if (row.written == nullptr) {
      EXPECT_EQ(written, decision.labels.end());
    } else {
      ASSERT_NE(written, decision.labels.end());
      EXPECT_EQ(written->second, row.written);
    }
    EXPECT_EQ(decision.removes_gpu, row.written != nullptr && std::string("false") == row.written);
  }
}

// Pain 4: wiped labels of node feature discovery are no evidence that a GPU has gone.
TEST(NodeLabels, WithoutAnyDiscoveryLabelNothingIsRemoved) {
  const Node node = MakeNode({{"nvidia.com/gpu.present", "true"}, {Deploy("driver"), "true"}});
  const NodeDecision decision = DecideNode(node, {});
  EXPECT_FALSE(decision.removes_gpu);
  EXPECT_FALSE(decision.labels.contains("nvidia.com/gpu.present"));
  EXPECT_THAT(Deployed(decision, false), IsEmpty());
}

// Nor are labels that say so while the kubelet offers GPUs.
TEST(NodeLabels, AllocatableGpusAreEvidenceThatTheyAreThere) {
  for (const auto& [resource, quantity, stays] :
       {std::tuple("nvidia.com/gpu", "8", true), std::tuple("nvidia.com/mig-1g.10gb", "1", true),
        std::tuple("nvidia.com/gpu", "0", false), std::tuple("cpu", "64", false)}) {
    const codec::Json object = {
        {"metadata",
         {{"name", "n"},
          {"labels",
           {{"nvidia.com/gpu.present", "true"},
            {"feature.node.kubernetes.io/kernel-version.full", "6.8"}}}}},
        {"status",
         {{"allocatable", {{resource, quantity}}},
          {"nodeInfo", {{"containerRuntimeVersion", "containerd://2.0"}}}}}};
    const Node node = *ReadNode(object);
    EXPECT_EQ(node.offers_gpu, stays) << resource << " " << quantity;
    EXPECT_EQ(DecideNode(node, {}).removes_gpu, !stays) << resource << " " << quantity;
    std::string text = object.dump();
    text.resize(text.size() + kube::kReadablePadding);
    const auto read = ReadNodeText(std::string_view(text).substr(0, object.dump().size()));
    ASSERT_TRUE(read) << read.error().ToString();
    EXPECT_EQ(*read, node);
  }
}

// Three keys, value exactly true.
TEST(NodeLabels, GpuPciLabels) {
  RecordProperty("holds", "operator-behaviour.md #17 [TestHasGPULabels]");
  for (const char* key : {"pci-10de.present", "pci-0302_10de.present", "pci-0300_10de.present"}) {
    const std::string label = std::string("feature.node.kubernetes.io/") + key;
    EXPECT_TRUE(MakeNode({{label, "true"}}).has_gpu_pci_label()) << key;
    EXPECT_FALSE(MakeNode({{label, "True"}}).has_gpu_pci_label()) << key;
  }
  EXPECT_FALSE(
      MakeNode({{"feature.node.kubernetes.io/pci-1af4.present", "true"}}).has_gpu_pci_label());
}

// A node that is no GPU node loses its deploy labels, no others.
TEST(NodeLabels, WithoutGpuDeployLabelsGo) {
  RecordProperty("holds", "operator-behaviour.md #29 [TestUpdateGPUStateLabels]");
  const Node node = MakeNode({{Deploy("driver"), "true"},
                              {Deploy("mig-manager"), "true"},
                              {Deploy("vgpu-manager"), "paused-for-driver-upgrade"},
                              {Deploy("nvsm"), "true"},
                              {"nvidia.com/mig.config", "all-1g.5gb"}});
  const NodeDecision decision = DecideNode(node, {});
  EXPECT_THAT(Deployed(decision, false),
              UnorderedElementsAre("driver", "mig-manager", "vgpu-manager"));
  EXPECT_EQ(decision.labels.size(), 3U);
}

// Nine labels; empty values are overwritten; other values are kept.
TEST(NodeLabels, ContainerWorkload) {
  RecordProperty("holds", "operator-behaviour.md #29, driver-lifecycle.md #94");
  const NodeDecision fresh = DecideNode(MakeNode(GpuNode()), {});
  EXPECT_THAT(Deployed(fresh, true), ::testing::UnorderedElementsAreArray(kContainerSet));
  EXPECT_EQ(fresh.labels.size(), 9U);

  const NodeDecision kept =
      DecideNode(MakeNode(GpuNode({{Deploy("driver"), ""},
                                   {Deploy("device-plugin"), "false"},
                                   {Deploy("container-toolkit"), "paused-for-driver-upgrade"}})),
                 {});
  EXPECT_EQ(kept.labels.at(Deploy("driver")), "true");
  EXPECT_FALSE(kept.labels.contains(Deploy("device-plugin")));
  EXPECT_FALSE(kept.labels.contains(Deploy("container-toolkit")));
}

// The first pass over a new GPU node writes gpu.present and the deploy labels together.
TEST(NodeLabels, NewGpuNodeGetsEverythingInOnePatch) {
  RecordProperty("holds", "operator-behaviour.md #33");
  const NodeDecision decision =
      DecideNode(MakeNode({{"feature.node.kubernetes.io/pci-10de.present", "true"}}), {});
  EXPECT_EQ(decision.labels.at("nvidia.com/gpu.present"), "true");
  EXPECT_EQ(decision.labels.size(), 10U);
}

TEST(NodeLabels, NothingIsWrittenWhenNothingDiffers) {
  Node node = MakeNode(GpuNode({{"nvidia.com/mig.capable", "true"}}));
  NodePolicy policy;
  policy.mig_default_all_disabled = true;
  policy.driver_auto_upgrade = true;
  LabelMap labels = GpuNode({{"nvidia.com/mig.capable", "true"}});
  const NodeDecision first = DecideNode(node, policy);
  for (const auto& [key, value] : first.labels) labels[key] = *value;
  EXPECT_TRUE(
      DecideNode(MakeNode(labels, {{"nvidia.com/gpu-driver-upgrade-enabled", "true"}}), policy)
          .empty());
}

// Operands=false removes all of them, and mig.config is set all the same (section 7.4).
TEST(NodeLabels, OperandsDisabledOnANode) {
  RecordProperty("holds", "operator-behaviour.md #29");
  NodePolicy policy;
  policy.mig_default_all_disabled = true;
  const NodeDecision decision =
      DecideNode(MakeNode(GpuNode({{"nvidia.com/gpu.deploy.operands", "false"},
                                   {Deploy("driver"), "true"},
                                   {"nvidia.com/mig.capable", "true"}})),
                 policy);
  EXPECT_THAT(Deployed(decision, true), IsEmpty());
  EXPECT_THAT(Deployed(decision, false), ElementsAre("driver"));
  EXPECT_EQ(decision.labels.at("nvidia.com/mig.config"), "all-disabled");
}

// Sets of the virtual machine workloads.
TEST(NodeLabels, VirtualMachineWorkloads) {
  RecordProperty("holds", "operator-behaviour.md #29");
  EXPECT_THAT(Deployed(DecideNode(MakeNode(GpuNode()), Sandbox("vm-passthrough")), true),
              UnorderedElementsAre("client", "sandbox-validator", "cc-manager", "vfio-manager",
                                   "kata-manager", "sandbox-device-plugin"));
  EXPECT_THAT(Deployed(DecideNode(MakeNode(GpuNode()), Sandbox("vm-passthrough", "kata")), true),
              UnorderedElementsAre("client", "sandbox-validator", "cc-manager", "vfio-manager",
                                   "kata-manager", "kata-sandbox-device-plugin"));
  EXPECT_THAT(Deployed(DecideNode(MakeNode(GpuNode()), Sandbox("vm-vgpu", "kata")), true),
              UnorderedElementsAre("client", "sandbox-validator", "cc-manager", "vgpu-manager",
                                   "vgpu-device-manager", "sandbox-device-plugin"));
}

// Some GPUs of a node for containers are for virtual machines: it has what those need that are
// there.
TEST(NodeLabels, ADividedNodeHasOperandsOfBothSides) {
  const LabelMap annotations = {{std::string(kMachineGpus), "0000:65:00.0"}};
  const auto node = MakeNode(GpuNode(), annotations);
  std::vector<std::string> both(std::begin(kContainerSet), std::end(kContainerSet));
  both.insert(both.end(), {"sandbox-validator", "sandbox-device-plugin"});
  EXPECT_THAT(Deployed(DecideNode(node, Sandbox("container")), true),
              ::testing::UnorderedElementsAreArray(both));
  both.back() = "kata-sandbox-device-plugin";
  EXPECT_THAT(Deployed(DecideNode(node, Sandbox("container", "kata")), true),
              ::testing::UnorderedElementsAreArray(both));
  EXPECT_TRUE(IsDivided(node, Sandbox("container")));
}

TEST(NodeLabels, TheAnnotationMeansNothingElsewhere) {
  const auto with = [](const std::string& list) {
    return MakeNode(GpuNode(), {{std::string(kMachineGpus), list}});
  };
  auto without_driver = Sandbox("container");
  without_driver.driver_enabled = false;
  for (const auto& policy :
       {Sandbox("vm-passthrough"), Sandbox("vm-vgpu"), NodePolicy(), without_driver}) {
    EXPECT_EQ(DecideNode(with("0000:65:00.0"), policy).labels,
              DecideNode(MakeNode(GpuNode()), policy).labels);
    EXPECT_FALSE(IsDivided(with("0000:65:00.0"), policy));
  }
  EXPECT_EQ(DecideNode(with(" "), Sandbox("container")).labels,
            DecideNode(MakeNode(GpuNode()), Sandbox("container")).labels);
}

// GPUs are divided before a driver comes, and this one is there already.
TEST(NodeLabels, ANodeWithADriverOfItsOwnIsNotDivided) {
  LabelMap labels = GpuNode();
  labels["nvidia.com/gpu.deploy.driver"] = "pre-installed";
  const auto node = MakeNode(labels, {{std::string(kMachineGpus), "0000:65:00.0"}});
  EXPECT_FALSE(IsDivided(node, Sandbox("container")));
  EXPECT_THAT(WhyNotDivided(node, Sandbox("container")),
              ::testing::HasSubstr("a driver of its own"));
  EXPECT_EQ(DecideNode(node, Sandbox("container")).labels,
            DecideNode(MakeNode(labels), Sandbox("container")).labels);
  EXPECT_EQ(WhyNotDivided(MakeNode(labels), Sandbox("container")), "") << "nobody asks for it";
  labels["nvidia.com/gpu.deploy.driver"] = "false";
  EXPECT_FALSE(IsDivided(MakeNode(labels, {{std::string(kMachineGpus), "0000:65:00.0"}}),
                         Sandbox("container")));
}

// A switch from container to passthrough swaps the sets.
TEST(NodeLabels, SwitchOfWorkloadSwapsLabels) {
  RecordProperty("holds", "operator-behaviour.md #29");
  LabelMap labels = GpuNode(
      {{"nvidia.com/gpu.workload.config", "vm-passthrough"}, {Deploy("mig-manager"), "true"}});
  for (const char* name : kContainerSet) labels[Deploy(name)] = "true";
  const NodeDecision decision = DecideNode(MakeNode(labels), Sandbox("container"));
  EXPECT_THAT(Deployed(decision, false),
              UnorderedElementsAre("driver", "gpu-feature-discovery", "container-toolkit",
                                   "device-plugin", "dcgm", "dcgm-exporter", "node-status-exporter",
                                   "operator-validator", "mig-manager"));
  EXPECT_THAT(Deployed(decision, true),
              UnorderedElementsAre("sandbox-validator", "cc-manager", "vfio-manager",
                                   "kata-manager", "sandbox-device-plugin"));
}

// The vGPU device manager was killed while it had paused the others, and the node is for something
// else now (virtualisation-and-olm.md section 7, row 10).
TEST(NodeLabels, APauseOfAnOperandThatIsNotThereIsTakenAway) {
  const auto labels = GpuNode({{Deploy("sandbox-device-plugin"), "paused-for-vgpu-change"},
                               {Deploy("sandbox-validator"), "mine_paused-for-vgpu-change"},
                               {Deploy("client"), "paused-for-mig-change"},
                               {Deploy("cc-manager"), "paused-for-driver-upgrade"},
                               {Deploy("kata-manager"), "false"}});
  const auto passthrough = DecideNode(MakeNode(labels), Sandbox("vm-passthrough")).labels;
  EXPECT_EQ(passthrough.at(Deploy("sandbox-device-plugin")), "true");
  EXPECT_EQ(passthrough.at(Deploy("sandbox-validator")), "mine");
  EXPECT_EQ(passthrough.at(Deploy("client")), "true") << "no MIG manager here";
  EXPECT_FALSE(passthrough.contains(Deploy("cc-manager"))) << "the driver manager takes it away";
  EXPECT_FALSE(passthrough.contains(Deploy("kata-manager")));
  // Where the manager is, it goes on.
  const auto vgpu = DecideNode(MakeNode(labels), Sandbox("vm-vgpu")).labels;
  EXPECT_FALSE(vgpu.contains(Deploy("sandbox-device-plugin")));
  EXPECT_FALSE(vgpu.contains(Deploy("sandbox-validator")));
  EXPECT_FALSE(DecideNode(MakeNode(GpuNode({{Deploy("device-plugin"), "paused-for-mig-change"}})),
                          Sandbox("container"))
                   .labels.contains(Deploy("device-plugin")));
}

// A driver manager was killed while it had paused operands and cordoned the node, and its pod does
// not come back (driver-lifecycle.md 12.2).
class LeftByADriverManager : public ::testing::Test {
 protected:
  static Node Paused(LabelMap more = {}) {
    more.emplace(Deploy("device-plugin"), "paused-for-driver-upgrade");
    more.emplace(Deploy("dcgm"), "mine_paused-for-driver-upgrade");
    more.emplace(Deploy("mig-manager"), "paused-for-driver-upgrade");
    more.emplace(Deploy("sandbox-validator"), "paused-for-driver-upgrade");
    Node node =
        MakeNode(GpuNode(std::move(more)), {{std::string(kCordonedByDriverManager), "true"}});
    node.unschedulable = true;
    return node;
  }
  static bool Releases(const Node& node, const NodePolicy& policy) {
    const auto decision = DecideNode(node, policy);
    EXPECT_EQ(decision.annotations.contains(kCordonedByDriverManager), decision.uncordon);
    return decision.uncordon;
  }
  NodePolicy policy_;
};

TEST_F(LeftByADriverManager, IsItsOwnWhereItComesAgain) {
  EXPECT_FALSE(Releases(Paused(), policy_));
  EXPECT_FALSE(DecideNode(Paused(), policy_).labels.contains(Deploy("device-plugin")));
  EXPECT_FALSE(Releases(Paused(), Sandbox("vm-vgpu")));
  EXPECT_FALSE(Releases(Paused(), Sandbox("vm-passthrough")));
  // Of NVIDIADriver objects nothing is known yet.
  policy_.nvidia_driver_crd = true;
  EXPECT_FALSE(Releases(Paused(), policy_));
}

TEST_F(LeftByADriverManager, IsTakenBackWhereNoDriverIsWanted) {
  policy_.driver_enabled = false;
  ASSERT_TRUE(Releases(Paused(), policy_));
  const auto labels = DecideNode(Paused(), policy_).labels;
  EXPECT_EQ(labels.at(Deploy("device-plugin")), "true");
  EXPECT_EQ(labels.at(Deploy("dcgm")), "mine");
  EXPECT_EQ(labels.at(Deploy("mig-manager")), "true");
}

TEST_F(LeftByADriverManager, IsTakenBackWhereTheNodeTakesNone) {
  for (const char* value : {"false", "pre-installed"}) {
    EXPECT_TRUE(Releases(Paused({{Deploy("driver"), value}}), policy_)) << value;
  }
  EXPECT_FALSE(Releases(Paused({{Deploy("driver"), "true"}}), policy_));
  EXPECT_TRUE(Releases(Paused({{"nvidia.com/gpu.deploy.operands", "false"}}), policy_));
  auto passthrough = Sandbox("vm-passthrough");
  passthrough.vfio_manager_enabled = false;
  EXPECT_TRUE(Releases(Paused(), passthrough));
  EXPECT_EQ(DecideNode(Paused(), passthrough).labels.at(Deploy("sandbox-validator")), "true");
  auto vgpu = Sandbox("vm-vgpu");
  vgpu.vgpu_manager_enabled = false;
  EXPECT_TRUE(Releases(Paused(), vgpu));
}

TEST_F(LeftByADriverManager, IsTakenBackWithTheGpu) {
  Node node = MakeNode({{"feature.node.kubernetes.io/cpu-model.id", "1"}},
                       {{std::string(kCordonedByDriverManager), "true"}});
  node.unschedulable = true;
  EXPECT_TRUE(Releases(node, policy_));
  // A person took the cordon back, and the note alone is left.
  node.unschedulable = false;
  const auto decision = DecideNode(node, policy_);
  EXPECT_TRUE(decision.annotations.contains(kCordonedByDriverManager));
  EXPECT_FALSE(decision.uncordon);
}

TEST(NodeLabels, WorkloadOfANode) {
  const Node labelled = MakeNode({{"nvidia.com/gpu.workload.config", "vm-vgpu"}});
  const Node invalid = MakeNode({{"nvidia.com/gpu.workload.config", "vm"}});
  EXPECT_EQ(WorkloadOf(labelled, {}), Workload::kContainer);
  EXPECT_EQ(WorkloadOf(labelled, Sandbox("container")), Workload::kVgpu);
  EXPECT_EQ(WorkloadOf(invalid, Sandbox("vm-passthrough")), Workload::kPassthrough);
}

// A misspelt label must not take the GPUs from whoever has them (docs/differences.md).
TEST(NodeLabels, AnUnknownWorkloadLeavesTheNodeAsItIs) {
  const std::pair<const char*, Workload> standing[] = {
      {"nvidia.com/gpu.deploy.vfio-manager", Workload::kPassthrough},
      {"nvidia.com/gpu.deploy.vgpu-manager", Workload::kVgpu},
      {"nvidia.com/gpu.deploy.container-toolkit", Workload::kContainer}};
  for (const auto& [label, workload] : standing) {
    for (const char* policy : {"container", "vm-passthrough", "vm-vgpu"}) {
      const Node node =
          MakeNode({{"nvidia.com/gpu.workload.config", "vm-passthru"}, {label, "true"}});
      EXPECT_EQ(WorkloadOf(node, Sandbox(policy)), workload) << label << ' ' << policy;
      const Node unlabelled = MakeNode({{label, "true"}});
      EXPECT_EQ(WorkloadOf(unlabelled, Sandbox(policy)), *WorkloadNamed(policy)) << label;
    }
  }
}

TEST(NodeLabels, MigCapable) {
  RecordProperty("holds", "operator-behaviour.md #18 [TestHasMIGCapableGPU], mig-manager.md #39");
  const auto capable = [](const LabelMap& labels) { return IsMigCapable(MakeNode(labels).labels); };
  EXPECT_TRUE(capable({{"nvidia.com/mig.capable", "true"}}));
  EXPECT_FALSE(capable(
      {{"nvidia.com/mig.capable", "false"}, {"nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3"}}));
  for (const char* product : {"NVIDIA-A100-SXM4-40GB", "NVIDIA-H100-80GB-HBM3", "NVIDIA-A30",
                              "NVIDIA-H200", "NVIDIA-B200"}) {
    EXPECT_TRUE(capable({{"nvidia.com/gpu.product", product}})) << product;
  }
  for (const char* product : {"Tesla-T4", "NVIDIA-RTX-A3000", "NVIDIA-L40S"}) {
    EXPECT_FALSE(capable({{"nvidia.com/gpu.product", product}})) << product;
  }
  EXPECT_FALSE(
      capable({{"nvidia.com/vgpu.host-driver-version", "1"}, {"nvidia.com/mig.capable", "true"}}));
  EXPECT_FALSE(capable({}));
}

// A MIG-capable node gets mig-manager and mig.config; an existing mig.config is kept.
TEST(NodeLabels, MigManagerAndConfig) {
  RecordProperty("holds", "operator-behaviour.md #29, mig-manager.md #40");
  NodePolicy policy;
  policy.mig_default_all_disabled = true;
  const NodeDecision decision =
      DecideNode(MakeNode(GpuNode({{"nvidia.com/mig.capable", "true"}})), policy);
  EXPECT_EQ(decision.labels.at(Deploy("mig-manager")), "true");
  EXPECT_EQ(decision.labels.at("nvidia.com/mig.config"), "all-disabled");

  const NodeDecision kept = DecideNode(MakeNode(GpuNode({{"nvidia.com/mig.capable", "true"},
                                                         {"nvidia.com/mig.config", "all-1g.5gb"},
                                                         {Deploy("mig-manager"), ""}})),
                                       policy);
  EXPECT_FALSE(kept.labels.contains("nvidia.com/mig.config"));
  EXPECT_FALSE(kept.labels.contains(Deploy("mig-manager")));  // empty counts as present

  policy.mig_manager_enabled = false;
  EXPECT_FALSE(DecideNode(MakeNode(GpuNode({{"nvidia.com/mig.capable", "true"}})), policy)
                   .labels.contains("nvidia.com/mig.config"));
}

TEST(NodeLabels, AutoUpgradeAnnotation) {
  RecordProperty("holds", "operator-behaviour.md #36 [TestSetDriverAutoUpgradeAnnotation]");
  constexpr const char* kKey = "nvidia.com/gpu-driver-upgrade-enabled";
  NodePolicy on;
  on.driver_auto_upgrade = true;
  EXPECT_EQ(DecideNode(MakeNode(GpuNode()), on).annotations.at(kKey), "true");
  EXPECT_EQ(DecideNode(MakeNode(GpuNode(), {{kKey, "false"}}), on).annotations.at(kKey), "true");
  EXPECT_THAT(DecideNode(MakeNode(GpuNode(), {{kKey, "true"}}), on).annotations, IsEmpty());
  EXPECT_EQ(DecideNode(MakeNode(GpuNode(), {{kKey, "true"}}), {}).annotations.at(kKey),
            std::nullopt);
  EXPECT_THAT(DecideNode(MakeNode(GpuNode()), {}).annotations, IsEmpty());
  // Nor is it of use where no GPU is.
  EXPECT_EQ(DecideNode(MakeNode({}, {{kKey, "true"}}), on).annotations.at(kKey), std::nullopt);
  EXPECT_THAT(DecideNode(MakeNode({}), on).annotations, IsEmpty());
}

TEST(NodeLabels, PolicySettings) {
  const auto policy = api::ReadClusterPolicy(
      {{"apiVersion", "nvidia.com/v1"},
       {"kind", "ClusterPolicy"},
       {"metadata", {{"name", "p"}}},
       {"spec",
        {{"driver", {{"upgradePolicy", {{"autoUpgrade", true}}}}},
         {"migManager", {{"config", codec::Json::object()}}},
         {"sandboxWorkloads", {{"enabled", false}, {"defaultWorkload", "vm-vgpu"}}}}}});
  NodePolicy nodes = NodePolicyOf(*policy);
  EXPECT_TRUE(nodes.driver_auto_upgrade);
  EXPECT_TRUE(nodes.mig_default_all_disabled);
  EXPECT_EQ(nodes.default_workload, Workload::kContainer);
  // driver-lifecycle.md: none is upgraded where virtual machines may have GPUs.
  auto sandbox = *policy;
  sandbox.sandbox.enabled = true;
  nodes = NodePolicyOf(sandbox);
  EXPECT_FALSE(nodes.driver_auto_upgrade);
  EXPECT_EQ(nodes.default_workload, Workload::kVgpu);
}

}  // namespace
}  // namespace pitcrew::desired
