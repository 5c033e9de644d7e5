// Permitted devices in KubeVirt and HyperConverged over a real kube-apiserver, with KubeVirt's own
// definitions; what nodes' kubelets would write, the tests write.
#include <gmock/gmock.h>

#include "apiserver/kubevirt_definitions.h"
#include "base/file.h"
#include "base/strings.h"
#include "kubevirt/decision.h"
#include "operator/uninstall/uninstall.h"
#include "support_operator.h"
#include "tests/support/folders.h"

namespace pitcrew::gpu_operator::testing {
namespace {

using kubevirt::kHyperConvergedsV1;
using kubevirt::kHyperConvergedsV1Beta1;
using kubevirt::kKubeVirts;
using kubevirt::kVirtualMachines;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr const char* kA10 = "nvidia.com/GA102GL_A10";
constexpr const char* kVgpu = "nvidia.com/NVIDIA_A10-24Q";

// Of HyperConverged's repository (deploy/crds/hco00.crd.yaml) where the variable names it: no
// module that can be downloaded has it.
Json HyperConvergedDefinition(const char* version) {
  const char* whole = std::getenv("PITCREW_HYPERCONVERGED_DEFINITION");
  const std::string file = whole != nullptr ? std::filesystem::path(whole)
                                            : test_support::SourceFolder() /
                                                  "src/operator/tests/data/hyperconverged.yaml";
  auto definition = codec::ParseYaml(base::ReadFile(file).value_or(""), file).value_or(Json());
  for (Json& one : definition["spec"]["versions"]) {
    one["served"] = one["name"] == version;
    one["storage"] = one["name"] == version;
  }
  return definition;
}

// HyperConverged takes no other name.
ObjectKey KeyOfTarget(const kube::ResourceKind& kind, const std::string& name_space) {
  return {name_space, kind.kind == "HyperConverged" ? "kubevirt-hyperconverged" : "it"};
}

class PermittedDevices : public OperatorTest {
 protected:
  void SetUp() override {
    OperatorTest::SetUp();
    policy_ = "policy-" + name_space_;
    auto names = gpu::DeviceNames::Load(test_support::SourceFolder() / "deploy/image/pci.ids");
    ASSERT_TRUE(names) << names.error().ToString();
    names_ = std::make_shared<const gpu::DeviceNames>(*std::move(names));
  }
  void TearDown() override {
    OperatorTest::TearDown();
    const auto definitions = client_->List(kube::kCustomResourceDefinitions, "");
    ASSERT_TRUE(definitions);
    for (const Json& definition : definitions->items) {
      if (!codec::FindString(definition, {"spec", "group"}).ends_with("kubevirt.io")) continue;
      EXPECT_TRUE(client_->Delete(kube::kCustomResourceDefinitions, kube::KeyOf(definition)));
      const auto key = kube::KeyOf(definition);
      EXPECT_TRUE(Eventually([&] { return !Exists(kube::kCustomResourceDefinitions, key); }));
    }
  }

  void Define(const Json& definition) {
    const auto created = client_->Apply(kube::kCustomResourceDefinitions, definition, kAdmin);
    ASSERT_TRUE(created) << created.error().ToString();
  }
  void DefineKubeVirt() {
    const auto defined = pitcrew::testing::DefineKubeVirt(*client_);
    ASSERT_TRUE(defined) << defined.error().ToString();
  }
  void DefineHyperConverged(const char* version, const kube::ResourceKind& kind) {
    Define(HyperConvergedDefinition(version));
    ASSERT_TRUE(Eventually([&] { return client_->List(kind, "").has_value(); }));
  }
  void CreateTarget(const kube::ResourceKind& kind, const Json& spec = Json::object()) {
    const auto key = KeyOfTarget(kind, name_space_);
    Create(kind, {{"metadata", {{"name", key.name}, {"namespace", name_space_}}}, {"spec", spec}});
  }
  void CreateMachineNode(const std::string& name, const std::string& workload) {
    CreateGpuNode(name);
    Merge(kube::kNodes, Cluster(name),
          {{"metadata",
            {{"labels",
              {{"feature.node.kubernetes.io/pci-10de.present", "true"},
               {"nvidia.com/gpu.workload.config", workload}}}}}});
  }
  // "vm", which names this resource.
  void CreateStoppedMachine(const char* resource) {
    Create(
        kVirtualMachines,
        {{"metadata", {{"name", "vm"}, {"namespace", name_space_}}},
         {"spec",
          {{"runStrategy", "Halted"},
           {"template",
            {{"spec",
              {{"domain",
                {{"devices", {{"gpus", {{{"name", "gpu"}, {"deviceName", resource}}}}}}}}}}}}}}});
  }
  // As the kubelet does for a device plugin.
  void Offer(const std::string& node, const Json& resources) {
    Merge(kube::kNodes, Cluster(node),
          {{"status", {{"capacity", resources}, {"allocatable", resources}}}}, "status");
  }
  std::unique_ptr<RunningOperator> Start(
      std::chrono::milliseconds grace = std::chrono::milliseconds(300)) {
    return std::make_unique<RunningOperator>(name_space_, [&](RunnerOptions& options) {
      options.permitted_devices = {.names = names_, .grace = grace};
    });
  }
  void CreateVmPolicy() {
    CreatePolicy(policy_, "{sandboxWorkloads: {enabled: true, mode: kubevirt}}");
  }
  // "10DE:2236 nvidia.com/GA102GL_A10 external", in order.
  [[nodiscard]] std::vector<std::string> Permitted(const kube::ResourceKind& kind) const {
    std::vector<std::string> texts;
    const auto object = client_->Get(kind, KeyOfTarget(kind, name_space_));
    if (!object) return {object.error().message};
    const auto permitted = kubevirt::ReadPermitted(*object, *kubevirt::FormOf(*object));
    if (!permitted) return {permitted.error().message};
    for (const auto& entry : permitted->entries) {
      texts.push_back(entry.selector + " " + entry.resource + (entry.external ? " external" : ""));
    }
    return texts;
  }
  [[nodiscard]] bool Permits(const kube::ResourceKind& kind,
                             const std::vector<std::string>& wanted) const {
    return Eventually([&] { return Permitted(kind) == wanted; });
  }
  [[nodiscard]] bool HasEvent(const std::string& reason) const {
    const auto events = client_->List(kube::kEvents, name_space_);
    return events && std::ranges::any_of(events->items, [&](const Json& event) {
             return codec::FindString(event, {"reason"}) == reason;
           });
  }

  const std::string gpu_ = std::string("10DE:2236 ") + kA10 + " external";
  const std::string vgpu_ = std::string("NVIDIA A10-24Q ") + kVgpu + " external";
  std::string policy_;
  std::shared_ptr<const gpu::DeviceNames> names_;
};

TEST_F(PermittedDevices, FollowWhatNodesOffer) {
  RecordProperty("holds", "virtualisation-and-olm.md #5, #10");
  DefineKubeVirt();
  CreateTarget(kKubeVirts);
  CreateVmPolicy();
  CreateMachineNode("a", "vm-passthrough");
  CreateMachineNode("b", "vm-vgpu");
  const auto running = Start();
  Offer("a", {{kA10, "2"}});
  EXPECT_TRUE(Permits(kKubeVirts, {gpu_}));
  Offer("b", {{kVgpu, "4"}});
  EXPECT_TRUE(Permits(kKubeVirts, {gpu_, vgpu_}));
  EXPECT_TRUE(Eventually([&] { return HasEvent("PermittedDevicesChanged"); }));

  // The plugin is away; the machine's node changes its workload; a virtual machine still names it.
  Offer("a", {{kA10, "0"}});
  CreateStoppedMachine(kA10);
  Merge(kube::kNodes, Cluster("a"),
        {{"metadata", {{"labels", {{"nvidia.com/gpu.workload.config", "container"}}}}}});
  ASSERT_TRUE(Eventually(
      [&] { return Label("a", "nvidia.com/gpu.deploy.sandbox-device-plugin") == "(none)"; }));
  Offer("b", {{kVgpu, "3"}, {"nvidia.com/oddity", "1"}});
  EXPECT_TRUE(Eventually([&] { return HasEvent("PermittedDeviceUnknown"); }));
  EXPECT_THAT(Permitted(kKubeVirts), ElementsAre(gpu_, vgpu_));
  ASSERT_TRUE(client_->Delete(kVirtualMachines, Own("vm")));
  EXPECT_TRUE(Permits(kKubeVirts, {vgpu_}));
}

// Nobody offers either device any longer; when the one goes, the time of both is over.
TEST_F(PermittedDevices, WhatAStoppedMachineNamesStaysWhenAnotherDeviceGoes) {
  DefineKubeVirt();
  CreateTarget(kKubeVirts);
  CreateVmPolicy();
  CreateMachineNode("a", "vm-passthrough");
  CreateStoppedMachine(kA10);
  const auto running = Start();
  Offer("a", {{kA10, "2"}, {"nvidia.com/GA102GL_A40", "1"}});
  ASSERT_TRUE(Eventually([&] { return Permitted(kKubeVirts).size() == 2; }));
  Merge(kube::kNodes, Cluster("a"),
        {{"metadata", {{"labels", {{"nvidia.com/gpu.workload.config", "container"}}}}}});
  EXPECT_TRUE(Permits(kKubeVirts, {gpu_})) << ::testing::PrintToString(Permitted(kKubeVirts));
}

TEST_F(PermittedDevices, OthersEntriesSurvive) {
  RecordProperty("holds", "virtualisation-and-olm.md #6, #9");
  DefineKubeVirt();
  const Json others = {{{"pciVendorSelector", "8086:6F54"}, {"resourceName", "intel.com/qat"}},
                       {{"pciVendorSelector", "10de:1eb8"}, {"resourceName", "nvidia.com/old"}}};
  CreateTarget(kKubeVirts,
               {{"configuration", {{"permittedHostDevices", {{"pciHostDevices", others}}}}}});
  CreateVmPolicy();
  CreateMachineNode("a", "vm-passthrough");
  const auto running = Start();
  Offer("a", {{kA10, "2"}, {"nvidia.com/TU104GL_TESLA_T4", "1"}});
  EXPECT_TRUE(Permits(kKubeVirts, {"8086:6F54 intel.com/qat", "10de:1eb8 nvidia.com/old", gpu_}));
  EXPECT_TRUE(Eventually([&] { return HasEvent("PermittedDeviceConflict"); }));

  // People write meanwhile; nothing of theirs is lost.
  for (int round = 0; round < 20; ++round) {
    Json resources = {{kA10, "2"}};
    if (round % 2 == 0) resources["nvidia.com/GA102GL_A40"] = "1";
    Offer("a", resources);
    const auto object = client_->Get(kKubeVirts, Own("it"));
    ASSERT_TRUE(object);
    Json list = (*object)["spec"]["configuration"]["permittedHostDevices"]["pciHostDevices"];
    list.push_back({{"pciVendorSelector", fmt::format("8086:{:04d}", round)},
                    {"resourceName", fmt::format("intel.com/{}", round)}});
    Json update = *object;
    update["spec"]["configuration"]["permittedHostDevices"]["pciHostDevices"] = list;
    if (!client_->Update(kKubeVirts, update, kAdmin)) --round;
  }
  ASSERT_TRUE(Eventually([&] {
    const auto permitted = Permitted(kKubeVirts);
    return std::ranges::find(permitted, gpu_) != permitted.end();
  }));
  const auto permitted = Permitted(kKubeVirts);
  for (int round = 0; round < 20; ++round) {
    EXPECT_THAT(permitted,
                ::testing::Contains(fmt::format("8086:{:04d} intel.com/{}", round, round)));
  }
  EXPECT_THAT(permitted, ::testing::Contains("8086:6F54 intel.com/qat"));
}

TEST_F(PermittedDevices, HyperConvergedGoesBeforeKubeVirt) {
  RecordProperty("holds", "virtualisation-and-olm.md #7, #8");
  for (const auto& [version, kind] :
       {std::pair{"v1beta1", kHyperConvergedsV1Beta1}, std::pair{"v1", kHyperConvergedsV1}}) {
    SCOPED_TRACE(version);
    DefineKubeVirt();
    DefineHyperConverged(version, kind);
    CreateTarget(kKubeVirts);
    CreateTarget(kind);
    CreateVmPolicy();
    CreateMachineNode("a", "vm-passthrough");
    {
      const auto running = Start();
      Offer("a", {{kA10, "1"}});
      EXPECT_TRUE(Permits(kind, {gpu_}));
    }
    EXPECT_THAT(Permitted(kKubeVirts), IsEmpty());
    TearDown();
  }
}

// KubeVirt is installed after the operator, and taken away under it.
TEST_F(PermittedDevices, DefinitionsComeAndGo) {
  CreateVmPolicy();
  CreateMachineNode("a", "vm-passthrough");
  const auto running = Start();
  Offer("a", {{kA10, "1"}});
  DefineKubeVirt();
  CreateTarget(kKubeVirts);
  EXPECT_TRUE(Permits(kKubeVirts, {gpu_}));
  DefineHyperConverged("v1beta1", kHyperConvergedsV1Beta1);
  CreateTarget(kHyperConvergedsV1Beta1);
  EXPECT_TRUE(Permits(kHyperConvergedsV1Beta1, {gpu_}));
  const ObjectKey hyperconverged = Cluster(std::string(kubevirt::kHyperConvergedDefinition));
  ASSERT_TRUE(client_->Delete(kube::kCustomResourceDefinitions, hyperconverged));
  Offer("a", {{kA10, "1"}, {"nvidia.com/GA102GL_A40", "1"}});
  EXPECT_TRUE(Permits(kKubeVirts, {gpu_, "10DE:2235 nvidia.com/GA102GL_A40 external"}));
}

TEST_F(PermittedDevices, UninstallRestoresTheFormerState) {
  RecordProperty("holds", "virtualisation-and-olm.md #12");
  DefineKubeVirt();
  const Json spec = {{"configuration", {{"developerConfiguration", Json::object()}}}};
  CreateTarget(kKubeVirts, spec);
  const auto before = client_->Get(kKubeVirts, Own("it"));
  ASSERT_TRUE(before);
  CreateVmPolicy();
  CreateMachineNode("a", "vm-passthrough");
  const auto running = Start(std::chrono::minutes(10));
  Offer("a", {{kA10, "1"}});
  ASSERT_TRUE(Permits(kKubeVirts, {gpu_}));
  // The operator still runs, as in the chart's hook, and the node still has what it had.
  UninstallOptions everything;
  everything.operator_namespace = name_space_;
  everything.all_policies = true;
  const auto left = Uninstall(client_, everything, io::StopToken());
  ASSERT_TRUE(left) << left.error().ToString();
  Offer("a", {{kA10, "2"}});
  CreateMachineNode("b", "vm-passthrough");
  ASSERT_TRUE(Eventually([&] { return Exists(kube::kNodes, Cluster("b")); }));
  const auto after = client_->Get(kKubeVirts, Own("it"));
  ASSERT_TRUE(after);
  EXPECT_EQ((*after)["spec"], (*before)["spec"]);
  EXPECT_FALSE(kubevirt::HasRecord(*after));
}

// Once for as long as it stays so, and neither where there is one nor where no node is for
// machines.
TEST_F(PermittedDevices, AMissingKubeVirtIsLogged) {
  CreateVmPolicy();
  const auto complaints = [&](const std::function<void(RunningOperator&)>& act) {
    ::testing::internal::CaptureStderr();
    const auto running = Start();
    act(*running);
    running->Stop();
    const auto lines = base::Split(::testing::internal::GetCapturedStderr(), '\n');
    return std::ranges::count_if(
        lines, [](const std::string& line) { return line.contains("install KubeVirt"); });
  };
  const auto idle = complaints([](RunningOperator& running) {
    EXPECT_TRUE(Eventually([&] { return running.Reconciles("permitted-devices") > 0; }));
  });
  EXPECT_EQ(idle, 0);
  CreateMachineNode("a", "vm-passthrough");
  const auto without = complaints([&](RunningOperator& running) {
    EXPECT_TRUE(Eventually(
        [&] { return Label("a", "nvidia.com/gpu.deploy.sandbox-device-plugin") == "true"; }));
    for (const char* amount : {"1", "2", "3"}) {
      const double before = running.Reconciles("permitted-devices");
      Offer("a", {{kA10, amount}});
      EXPECT_TRUE(Eventually([&] { return running.Reconciles("permitted-devices") > before; }));
    }
  });
  EXPECT_EQ(without, 1);
  DefineKubeVirt();
  CreateTarget(kKubeVirts);
  EXPECT_EQ(complaints([&](RunningOperator&) { EXPECT_TRUE(Permits(kKubeVirts, {gpu_})); }), 0);
}

TEST_F(PermittedDevices, AreLeftAloneUnlessAskedFor) {
  RecordProperty("holds", "virtualisation-and-olm.md #4");
  DefineKubeVirt();
  CreateTarget(kKubeVirts);
  CreateVmPolicy();
  CreateMachineNode("a", "vm-passthrough");
  const RunningOperator running(name_space_);
  Offer("a", {{kA10, "1"}});
  ASSERT_TRUE(Eventually(
      [&] { return Label("a", "nvidia.com/gpu.deploy.sandbox-device-plugin") == "true"; }));
  EXPECT_THAT(Permitted(kKubeVirts), IsEmpty());
}

}  // namespace
}  // namespace pitcrew::gpu_operator::testing
