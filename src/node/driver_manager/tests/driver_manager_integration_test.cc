// The driver manager on a real kube-apiserver, over a node's tree in a temporary folder.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "apiserver/interposed_server.h"
#include "base/file.h"
#include "base/strings.h"
#include "node/driver_manager/tests/support_manager.h"

namespace pitcrew::node::driver_manager {
namespace {

using codec::Json;
using own_node::LabelOf;
using ::pitcrew::testing::InterposedServer;
using ::testing::ElementsAre;

TEST_F(ManagerTest, NothingLoadedIsDoneAtOnce) {
  RecordProperty("holds", "driver-lifecycle.md #96");
  root_.Write("run/nvidia-driver.pid", "1\n");
  const auto before = Node();
  const auto done = Run();
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(Node(), before) << "no pausing, no cordon";
  EXPECT_FALSE(std::filesystem::exists(root_.path() / "run/nvidia-driver.pid"));
}

TEST_F(ManagerTest, WhatADriverWillMissIsToldAndEndsNothing) {
  root_.Write("sys/kernel/security/lockdown", "none [integrity] confidentiality\n");
  const auto done = Run();
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_THAT(AwaitEvent("UnsignedModulesRefused"), ::testing::HasSubstr("driver.usePrecompiled"));
  EXPECT_TRUE(HasEvent("UnsignedModulesRefused"));
}

// Its driver has shown no module, as a simulated one.
TEST_F(ManagerTest, WhoRunsWithTheFilesOfTheDriverBeforeStartsAnew) {
  MakePod("plugin", "nvidia-device-plugin-daemonset", Json::object());
  LetRun("plugin");
  const auto done = Run();
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_TRUE(was_paused_);
  EXPECT_EQ(LabelOf(Node(), kPlugin), "true");
  EXPECT_FALSE(client_->Get(kube::kPods, {options_.namespace_name, "plugin"}));
}

// In the VFIO manager's own pod: no driver has files there.
TEST_F(ManagerTest, OperandsOfVirtualMachinesStay) {
  SetLabel(api::kDeployVfioManager, "true");
  SetLabel(api::kDeploySandboxDevicePlugin, "true");
  root_.Write("sys/kernel/security/lockdown", "none [integrity] confidentiality\n");
  MakePod("machines", "nvidia-sandbox-device-plugin-daemonset", Json::object());
  LetRun("machines");
  const auto before = Node();
  const auto done = Run();
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(Node(), before);
  EXPECT_TRUE(client_->Get(kube::kPods, {options_.namespace_name, "machines"}));
  EXPECT_FALSE(HasEvent("UnsignedModulesRefused")) << "nothing is built there";
}

TEST_F(ManagerTest, WhoWaitsForTheDriverStays) {
  MakePod("plugin", "nvidia-device-plugin-daemonset", Json::object());
  const auto before = Node();
  const auto done = Run();
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(Node(), before);
  EXPECT_TRUE(client_->Get(kube::kPods, {options_.namespace_name, "plugin"}));
}

// A GPU with VFIO, in a tree of plain files: a command to the kernel has no effect there.
class GpuWithVfioTest : public ManagerTest {
 protected:
  void SetUp() override {
    ManagerTest::SetUp();
    const std::string device = "sys/bus/pci/devices/0000:65:00.0/";
    for (const auto& [name, text] :
         {std::pair("vendor", "0x10de"), std::pair("device", "0x2330"),
          std::pair("class", "0x030200"), std::pair("driver_override", "vfio-pci")}) {
      root_.Write(device + name, std::string(text) + "\n");
    }
    unbind_ = root_.Write("sys/bus/pci/drivers/vfio-pci/unbind", "");
    std::filesystem::create_symlink("../../drivers/vfio-pci", root_.path() / (device + "driver"));
  }
  [[nodiscard]] std::string Unbound() const { return base::ReadFile(unbind_).value_or("missing"); }
  std::filesystem::path unbind_;
};

TEST_F(GpuWithVfioTest, IsTakenFromItBeforeADriverComes) {
  RecordProperty("holds", "driver-lifecycle.md #96");
  const auto done = Run();
  EXPECT_EQ(Unbound(), "0000:65:00.0");
  ASSERT_FALSE(done) << "no kernel has done it";
  EXPECT_EQ(done.error().reason, "GpusHeldByVfio");
}

// A driver learns of its GPUs when it is loaded.
TEST_F(GpuWithVfioTest, TheWantedDriverIsLoadedAnewWhereGpusComeToIt) {
  root_.Write("sys/module/nvidia/refcnt", "0\n");
  root_.Write("run/nvidia-driver.state", "123\n");
  EXPECT_EQ(Run().error().reason, "GpusHeldByVfio") << "no kernel has done it";
  EXPECT_THAT(unloaded_, ElementsAre("nvidia"));
}

// What the node was for before may still unbind GPUs, or load a driver.
TEST_F(GpuWithVfioTest, NobodyIsTouchedWhileAnOwnerOfBeforeIsThere) {
  options_.owners_timeout = std::chrono::seconds(5);  // enough to see that it is there
  SetLabel(api::kDeployDriver, "true");
  MakeOwnedPod("leaving", "nvidia-vfio-manager");
  const auto refused = Run();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().reason, "OperandsStillRunning");
  EXPECT_THAT(refused.error().message, ::testing::HasSubstr("leaving"));
  EXPECT_EQ(Unbound(), "");
  EXPECT_FALSE(was_paused_);
  // Its successor's own pod is no predecessor, whatever its DaemonSet is called.
  ASSERT_TRUE(client_->Delete(kube::kPods, {options_.namespace_name, "leaving"}));
  options_.owners_timeout = std::chrono::seconds(300);
  MakeOwnedPod("own", "nvidia-driver-daemonset-6.8.0-60-generic-ubuntu24.04");
  EXPECT_EQ(Run().error().reason, "GpusHeldByVfio") << "no kernel has done it";
  EXPECT_EQ(Unbound(), "0000:65:00.0");
}

// A virtual machine that is started now would lose its GPU.
TEST_F(GpuWithVfioTest, WhoOffersItIsAwayMeanwhile) {
  SetLabel(api::kDeployVgpuManager, "true");
  SetLabel(api::kDeploySandboxDevicePlugin, "true");
  MakePod("sandbox", "nvidia-sandbox-device-plugin-daemonset", Json::object());
  plugin_label_ = api::kDeploySandboxDevicePlugin;
  plugin_pod_ = "sandbox";
  EXPECT_EQ(Run().error().reason, "GpusHeldByVfio");
  EXPECT_TRUE(was_paused_);
  EXPECT_EQ(LabelOf(Node(), plugin_label_), "true");
}

// What such a pod asks for is called by the GPU's model; its process tells.
TEST_F(GpuWithVfioTest, AVirtualMachineLeavesFirstWherePodsMayBeEvicted) {
  SetLabel(api::kDeployDriver, "true");
  options_.users_timeout = std::chrono::seconds(0);
  std::filesystem::create_directory_symlink(
      "../../../../kernel/iommu_groups/12",
      options_.sys / "bus/pci/devices/0000:65:00.0/iommu_group");
  const Json resources = {{"limits", {{"nvidia.com/GH100_H100_SXM5_80GB", "1"}}}};
  MakePod("machine", "virt-launcher", resources);
  MakePod("other", "virt-launcher", resources);
  const auto uid = codec::FindString(
      *client_->Get(kube::kPods, {options_.namespace_name, "machine"}), {"metadata", "uid"});
  root_.Write("host/proc/4242/comm", "qemu-kvm\n");
  root_.Write("host/proc/4242/cgroup",
              "0::/kubepods.slice/kubepods-burstable.slice/kubepods-"
              "burstable-pod" +
                  base::ReplaceAll(uid, "-", "_") + ".slice/cri-containerd-1.scope\n");
  std::filesystem::create_directories(options_.host_root / "proc/4242/fd");
  std::filesystem::create_symlink("/dev/vfio/12", options_.host_root / "proc/4242/fd/9");
  // No controller makes it again.
  EXPECT_EQ(Run().error().reason, "GpuPodsRemain");
  EXPECT_EQ(Unbound(), "") << "nothing has been touched";
  options_.evict_gpu_pods = false;
  EXPECT_EQ(Run().error().reason, "GpuPodsRemain");
  EXPECT_EQ(Unbound(), "") << "nothing has been touched";
  EXPECT_TRUE(client_->Get(kube::kPods, {options_.namespace_name, "machine"}));
  options_.evict_gpu_pods = true;
  options_.drain_force = true;
  EXPECT_EQ(Run().error().reason, "GpusHeldByVfio") << "no kernel has done it";
  EXPECT_EQ(client_->Get(kube::kPods, {options_.namespace_name, "machine"}).error().code,
            base::Code::kNotFound);
  EXPECT_TRUE(client_->Get(kube::kPods, {options_.namespace_name, "other"})) << "it has no GPU";
  EXPECT_EQ(codec::Find(Node(), {"spec", "unschedulable"}), nullptr);
}

TEST_F(GpuWithVfioTest, StaysWhereTheNodeIsForVirtualMachines) {
  ASSERT_TRUE(client_->Patch(
      kube::kNodes, {"", node_}, kube::PatchType::kMerge,
      {{"metadata", {{"labels", {{std::string(api::kDeployVfioManager), "true"}}}}}}));
  const auto done = Run();
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(Unbound(), "");
}

// The operands that both kinds of nodes for virtual machines have stay when the kind changes, with
// validations of the kind of before: without new ones the node would wait for ever.
TEST_F(ManagerTest, ValidationsForAnotherUseOfTheGpusEnd) {
  constexpr const char* kSandboxPlugin = "nvidia.com/gpu.deploy.sandbox-device-plugin";
  ASSERT_TRUE(client_->Patch(kube::kNodes, {"", node_}, kube::PatchType::kMerge,
                             {{"metadata",
                               {{"labels",
                                 {{kPlugin, nullptr},
                                  {kSandboxPlugin, "true"},
                                  {std::string(api::kDeployVgpuManager), "true"}}}}}}));
  root_.Write("run/validations/workload-type", "vm-passthrough\n");
  root_.Write("run/validations/vfio-pci-ready", "");
  MakePod("sandbox", "nvidia-sandbox-device-plugin-daemonset", Json::object());
  plugin_label_ = kSandboxPlugin;
  plugin_pod_ = "sandbox";
  const auto done = Run();
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_TRUE(was_paused_);
  EXPECT_EQ(LabelOf(Node(), kSandboxPlugin), "true");
  EXPECT_FALSE(std::filesystem::exists(root_.path() / "run/validations/workload-type"));
  EXPECT_FALSE(std::filesystem::exists(root_.path() / "run/validations/vfio-pci-ready"));
}

TEST_F(ManagerTest, ValidationsForTheSameUseStay) {
  ASSERT_TRUE(client_->Patch(
      kube::kNodes, {"", node_}, kube::PatchType::kMerge,
      {{"metadata", {{"labels", {{std::string(api::kDeployVgpuManager), "true"}}}}}}));
  root_.Write("run/validations/workload-type", "vm-vgpu\n");
  const auto before = Node();
  ASSERT_TRUE(Run());
  EXPECT_EQ(Node(), before);
  EXPECT_TRUE(std::filesystem::exists(root_.path() / "run/validations/workload-type"));
}

TEST_F(ManagerTest, ARunThatDiedIsTidiedUp) {
  LeaveAsKilled();
  ASSERT_TRUE(UninstallDriver(options_, client_, {}));
  ExpectTidy();
}

TEST_F(ManagerTest, ARunThatDiedIsTidiedUpAlsoWhereTheNextOneCannotSeeTheNode) {
  LeaveAsKilled();
  root_.Write("sys/module/nvidia/refcnt", "many\n");
  ASSERT_FALSE(UninstallDriver(options_, client_, {}));
  ExpectTidy();
}

TEST_F(ManagerTest, TheWantedDriverIsKept) {
  RecordProperty("holds", "driver-lifecycle.md #97");
  root_.Write("sys/module/nvidia/refcnt", "2\n");
  root_.Write("run/nvidia-driver.state", "123\n");
  root_.Write("sys/kernel/security/lockdown", "none [integrity] confidentiality\n");
  MakePod("plugin", "nvidia-device-plugin-daemonset", Json::object());
  const auto done = Run();
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_TRUE(was_paused_);
  EXPECT_EQ(LabelOf(Node(), kPlugin), "true");
  EXPECT_EQ(codec::Find(Node(), {"spec", "unschedulable"}), nullptr);
  EXPECT_FALSE(HasEvent("UnsignedModulesRefused")) << "nothing is built again";
  EXPECT_EQ(*base::ReadFile(options_.run_folder / "nvidia-driver.state"), "123\n");
}

// Upstream's leaves some behind with an empty value (weakness 33), which its operator fills in
// again.
TEST_F(ManagerTest, LabelsThatWereAbsentStayAbsent) {
  RecordProperty("holds", "driver-lifecycle.md #93, better (docs/differences.md)");
  root_.Write("sys/module/nvidia/refcnt", "0\n");
  SetLabel(api::kDeployDcgm, "false");
  SetLabel(api::kDeployNodeStatusExporter, "");
  MakePod("plugin", "nvidia-device-plugin-daemonset", Json::object());
  const Json before = Node()["metadata"]["labels"];
  const auto done = Run();
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_TRUE(was_paused_);
  EXPECT_THAT(unloaded_, ElementsAre("nvidia"));
  EXPECT_EQ(Node()["metadata"]["labels"], before) << "neither dcgm-dra nor mig-manager is there";
}

TEST_F(ManagerTest, APodThatMayNotGoLeavesTheNodeAsItWas) {  // driver-lifecycle.md 4.9
  root_.Write("sys/module/nvidia/refcnt", "2\n");
  MakePod("plugin", "nvidia-device-plugin-daemonset", Json::object());
  MakePod("mine", "training", {{"limits", {{"nvidia.com/gpu", "1"}}}});
  const auto done = Run();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().reason, "PodsNotEvictable");
  EXPECT_TRUE(was_paused_);
  EXPECT_EQ(LabelOf(Node(), kPlugin), "true");
  EXPECT_EQ(codec::Find(Node(), {"spec", "unschedulable"}), nullptr);
  EXPECT_TRUE(client_->Get(kube::kPods, {options_.namespace_name, "mine"}));
}

// driver-lifecycle.md 4.3 step 10, with upstream's weakness 30 mended: pods of DaemonSets, of which
// the driver's own is one, hold no drain up.
TEST_F(ManagerTest, WhereTheDriverStaysInUseTheNodeIsDrained) {
  root_.Write("sys/module/nvidia/refcnt", "2\n");
  options_.drain_force = true;
  MakePod("mine", "monitoring", Json::object());
  MakePod("other", "spared", Json::object());
  options_.drain_pod_selector = "app!=spared";
  busy_module_ = "nvidia";
  const auto refused = Run();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().reason, "DriverStillInUse");
  EXPECT_EQ(client_->Get(kube::kPods, {options_.namespace_name, "mine"}).error().code,
            base::Code::kNotFound);
  EXPECT_TRUE(client_->Get(kube::kPods, {options_.namespace_name, "other"}));
  EXPECT_EQ(codec::Find(Node(), {"spec", "unschedulable"}), nullptr);
}

TEST_F(ManagerTest, ADrainIsDoneOnlyWhereItIsAllowed) {
  root_.Write("sys/module/nvidia/refcnt", "2\n");
  options_.drain_force = true;
  options_.auto_drain = false;
  MakePod("mine", "monitoring", Json::object());
  busy_module_ = "nvidia";
  EXPECT_EQ(Run().error().reason, "DriverStillInUse");
  EXPECT_TRUE(client_->Get(kube::kPods, {options_.namespace_name, "mine"}));
}

// A node whose pods with GPUs are sent away first, and one that only a drain sends away.
class FreeingGpusTest : public ManagerTest {
 protected:
  void SetUp() override {
    ManagerTest::SetUp();
    root_.Write("sys/module/nvidia/refcnt", "0\n");
    options_.drain_force = true;
    options_.drain_pod_selector = "app!=training";
    MakePod("bystander", "monitoring", Json::object());
  }
  // A pod "mine" that uses a GPU, or has a claim for something.
  void MakeMine(Json spec) {
    spec["nodeName"] = node_;
    spec["terminationGracePeriodSeconds"] = 0;
    if (!spec.contains("containers")) {
      spec["containers"] = Json::array({{{"name", "c"},
                                         {"image", "i"},
                                         {"resources", {{"limits", {{"nvidia.com/gpu", "1"}}}}}}});
    }
    Make(kube::kPods, {{"metadata",
                        {{"name", "mine"},
                         {"namespace", options_.namespace_name},
                         {"labels", {{"app", "training"}}}}},
                       {"spec", spec}});
  }
  // Where the API server has an error for requests with this path.
  base::Status RunWithout(std::string_view path) {
    const InterposedServer server([&](const auto& request, auto& reply, const io::StopToken&) {
      if (!request.path.contains(path)) return false;
      reply.Send(500, R"({"kind": "Status", "reason": "InternalError", "message": "not now"})");
      return true;
    });
    const auto direct = std::exchange(client_, server.MakeClient());
    auto done = Run();
    client_ = direct;
    return done;
  }
  [[nodiscard]] bool IsThere(const std::string& pod) const {
    return client_->Get(kube::kPods, {options_.namespace_name, pod}).has_value();
  }
};

TEST_F(FreeingGpusTest, APodThatMayNotGoMakesItADrain) {  // driver-lifecycle.md 4.3 step 7
  MakeMine({{"volumes", Json::array({{{"name", "v"}, {"emptyDir", Json::object()}}})}});
  const auto done = Run();
  EXPECT_TRUE(done) << done.error().ToString();
  EXPECT_TRUE(IsThere("mine"));
  EXPECT_FALSE(IsThere("bystander"));
}

TEST_F(FreeingGpusTest, AnEvictionThatTheServerDidNotAnswerMakesItNoDrain) {
  MakeMine(Json::object());
  const auto done = RunWithout("/pods/mine/eviction");
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().reason, "PodsNotEvicted") << done.error().message;
  EXPECT_TRUE(IsThere("bystander"));
  EXPECT_THAT(unloaded_, ::testing::IsEmpty());
}

TEST_F(FreeingGpusTest, AClaimThatCannotBeReadForAMomentMakesItNoDrain) {
  MakeMine({{"resourceClaims", Json::array({{{"name", "card"}, {"resourceClaimName", "none"}}})},
            {"containers", Json::array({{{"name", "c"}, {"image", "i"}}})}});
  const auto done = RunWithout("/resourceclaims/");
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().reason, "ClaimNotRead") << done.error().message;
  EXPECT_TRUE(IsThere("mine"));
  EXPECT_TRUE(IsThere("bystander"));
  EXPECT_THAT(unloaded_, ::testing::IsEmpty());
}

TEST_F(ManagerTest, PodsThatHoldAClaimEndTheRun) {
  RecordProperty("holds", "driver-lifecycle.md #100");
  root_.Write("sys/module/nvidia/refcnt", "2\n");
  options_.evict_gpu_pods = false;
  options_.auto_drain = false;
  ASSERT_TRUE(
      client_->Patch(kube::kNodes, {"", node_}, kube::PatchType::kMerge,
                     {{"metadata", {{"labels", {{std::string(api::kDeployDraDriver), "true"}}}}}}));
  MakeClaim("held");
  Make(kube::kPods,
       {{"metadata", {{"name", "holder"}, {"namespace", options_.namespace_name}}},
        {"spec",
         {{"nodeName", node_},
          {"resourceClaims", Json::array({{{"name", "gpu"}, {"resourceClaimName", "held"}}})},
          {"containers", Json::array({{{"name", "c"}, {"image", "i"}}})}}}});
  const auto done = Run();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().reason, "GpuClaimsHeld") << done.error().message;
  EXPECT_NE(done.error().message.find(options_.namespace_name + "/holder"), std::string::npos);
  EXPECT_EQ(LabelOf(Node(), api::kDeployDraDriver), "true") << "its plugin has run all the time";
}

// The word of a driver container that was killed would let the validator go on.
TEST_F(ManagerTest, WhatADriverContainerSaidIsTakenBack) {
  const auto said = root_.Write("run/validations/.driver-ctr-ready", "GDRCOPY_ENABLED: true\n");
  const auto daemons = root_.Write("run/validations/.driver-daemons-status", "NotReady\n");
  ASSERT_TRUE(Run());
  EXPECT_FALSE(std::filesystem::exists(said));
  EXPECT_FALSE(std::filesystem::exists(daemons)) << "an image without daemons would never be ready";
}

TEST_F(ManagerTest, ManagedUpgradesAreNotEvictedHere) {
  RecordProperty("holds", "driver-lifecycle.md #98");
  root_.Write("sys/module/nvidia/refcnt", "0\n");
  MakePod("mine", "training", {{"limits", {{"nvidia.com/gpu", "1"}}}});
  ASSERT_TRUE(client_->Patch(
      kube::kNodes, {"", node_}, kube::PatchType::kMerge,
      {{"metadata", {{"annotations", {{"nvidia.com/gpu-driver-upgrade-enabled", "true"}}}}}}));
  const auto done = Run();
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_TRUE(client_->Get(kube::kPods, {options_.namespace_name, "mine"}));
  EXPECT_EQ(codec::Find(Node(), {"spec", "unschedulable"}), nullptr);
  EXPECT_EQ(LabelOf(Node(), kPlugin), "true");
}

// A host with a program nvidia-smi of its own.
class HostDriverTest : public ManagerTest {
 protected:
  void SetUp() override {
    ManagerTest::SetUp();
    if (::geteuid() != 0 || !std::filesystem::exists(kBusybox)) {
      GTEST_SKIP() << "needs root, and a static busybox that runs in the host's root";
    }
  }
  void MakeSmi(const std::string& script) {
    std::filesystem::create_directories(options_.host_root / "bin");
    for (const char* program : {"sh", "sleep"}) {
      std::filesystem::copy_file(kBusybox, options_.host_root / "bin" / program);
    }
    const auto smi = root_.Write("host/usr/bin/nvidia-smi", "#!/bin/sh\n" + script + "\n");
    ::chmod(smi.c_str(), 0755);
  }
  static constexpr const char* kBusybox = "/bin/busybox";
};

TEST_F(HostDriverTest, IsToldToTheOperator) {
  RecordProperty("holds", "driver-lifecycle.md #95");
  MakeSmi("echo 580.95.05");
  const auto done = UninstallDriver(options_, client_, {});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().reason, "DriverPreinstalled") << done.error().message;
  EXPECT_EQ(LabelOf(Node(), "nvidia.com/gpu.deploy.driver"), "pre-installed");
}

// A run was killed, and then the host got a driver of its own, or one that hangs.
TEST_F(HostDriverTest, LeavesNothingPaused) {
  MakeSmi("echo 580.95.05");
  LeaveAsKilled();
  EXPECT_EQ(UninstallDriver(options_, client_, {}).error().reason, "DriverPreinstalled");
  ExpectTidy();
}

TEST_F(HostDriverTest, ThatHangsLeavesNothingPaused) {
  MakeSmi("exec /bin/sleep 3600");
  options_.host_smi_timeout = std::chrono::milliseconds(100);
  LeaveAsKilled();
  EXPECT_EQ(UninstallDriver(options_, client_, {}).error().reason, "HostDriverUnknown");
  ExpectTidy();
}

// driver-lifecycle.md 12.2, weakness 36: upstream waits for ever. A driver that hangs is one.
TEST_F(HostDriverTest, WhoseProgramHangsIsNotTakenForAbsent) {
  MakeSmi("exec /bin/sleep 3600");
  root_.Write("sys/module/nvidia/refcnt", "0\n");
  options_.host_smi_timeout = std::chrono::milliseconds(100);  // however long: it never ends
  const auto before = Node();
  const auto done = Run();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, base::Code::kUnavailable);
  EXPECT_EQ(done.error().reason, "HostDriverUnknown") << done.error().message;
  EXPECT_THAT(unloaded_, ::testing::IsEmpty());
  EXPECT_EQ(Node(), before) << "no pausing, no cordon, no label";
  EXPECT_TRUE(HasEvent("HostDriverUnknown"));
}

}  // namespace
}  // namespace pitcrew::node::driver_manager
