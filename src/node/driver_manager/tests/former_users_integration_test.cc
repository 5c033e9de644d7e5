// Pods leave before a node's GPUs change hands, also those that have none of a GPU's devices open
// (virtualisation-and-olm.md section 4.4).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "node/driver_manager/tests/support_manager.h"
#include "tests/support/patience.h"

namespace pitcrew::node::driver_manager {
namespace {

using codec::Json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// An H100: without the PCI ID database it is known by its number.
constexpr const char* kMachineGpu = "nvidia.com/2330";
constexpr const char* kVgpu = "nvidia.com/NVIDIA_A10-12Q";

Json Owner(const std::string& kind) {
  return {{"apiVersion", "apps/v1"},
          {"kind", kind},
          {"name", "owner"},
          {"uid", "u-owner"},
          {"controller", true}};
}

class FormerUsersTest : public ManagerTest {
 protected:
  void SetUp() override {
    ManagerTest::SetUp();
    options_.users_timeout = std::chrono::seconds(0);
    options_.pci_ids = root_.path() / "no-such-database";
  }
  // A GPU that the driver of this name has, "" none.
  void MakeGpu(const std::string& address, const std::string& driver) {
    const std::string device = "sys/bus/pci/devices/" + address + "/";
    for (const auto& [name, text] :
         {std::pair("vendor", "0x10de"), std::pair("device", "0x2330"),
          std::pair("class", "0x030200"), std::pair("driver_override", "(null)")}) {
      root_.Write(device + name, std::string(text) + "\n");
    }
    if (driver.empty()) return;
    root_.Write("sys/bus/pci/drivers/" + driver + "/unbind", "");
    std::filesystem::create_symlink("../../drivers/" + driver, root_.path() / (device + "driver"));
  }
  // A pod that a controller makes again, with a limit of one `resource`.
  void MakeUser(const std::string& name, const std::string& resource,
                const std::string& controller = "ReplicaSet") {
    Json pod = {
        {"metadata", {{"name", name}, {"namespace", options_.namespace_name}}},
        {"spec",
         {{"nodeName", node_},
          {"terminationGracePeriodSeconds", 0},
          {"containers", Json::array({{{"name", "c"},
                                       {"image", "i"},
                                       {"resources", {{"limits", {{resource, "1"}}}}}}})}}}};
    if (!controller.empty()) pod["metadata"]["ownerReferences"] = Json::array({Owner(controller)});
    Make(kube::kPods, pod);
  }
  bool Has(const std::string& pod) {
    const auto found = client_->Get(kube::kPods, {options_.namespace_name, pod});
    EXPECT_TRUE(found || found.error().code == base::Code::kNotFound);
    return found.has_value();
  }
  bool IsCordoned() { return codec::Find(Node(), {"spec", "unschedulable"}) != nullptr; }
  void GoToPassthrough() { SetLabel(api::kDeployVfioManager, "true"); }
};

TEST_F(FormerUsersTest, AllThatHaveAGpuLeaveBeforeVirtualMachinesGetIt) {
  GoToPassthrough();
  MakeGpu("0000:65:00.0", "");
  MakeUser("idle", "nvidia.com/gpu");
  MakeUser("sliced", "nvidia.com/gpu.shared");
  MakeUser("instance", "nvidia.com/mig-1g.10gb");
  MakeUser("everywhere", "nvidia.com/gpu", "DaemonSet");
  MakeUser("network", "nvidia.com/hostdev");
  MakeClaim("held");
  Make(kube::kPods,
       {{"metadata",
         {{"name", "holder"},
          {"namespace", options_.namespace_name},
          {"ownerReferences", Json::array({Owner("ReplicaSet")})}}},
        {"spec",
         {{"nodeName", node_},
          {"terminationGracePeriodSeconds", 0},
          {"resourceClaims", Json::array({{{"name", "gpu"}, {"resourceClaimName", "held"}}})},
          {"containers", Json::array({{{"name", "c"}, {"image", "i"}}})}}}});
  const auto done = Run();
  ASSERT_TRUE(done) << done.error().message;
  for (const auto* pod : {"idle", "sliced", "instance", "everywhere", "holder"}) {
    EXPECT_FALSE(Has(pod)) << pod;
  }
  EXPECT_TRUE(Has("network"));
  EXPECT_FALSE(IsCordoned());
}

TEST_F(FormerUsersTest, OneThatMayNotGoKeepsAllAndIsNamedWithTheCommand) {
  GoToPassthrough();
  MakeGpu("0000:65:00.0", "");
  MakeUser("idle", "nvidia.com/gpu");
  MakeUser("bare", "nvidia.com/gpu", "");
  const auto refused = Run();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().reason, "GpuPodsRemain");
  const auto& space = options_.namespace_name;
  EXPECT_THAT(refused.error().message,
              AllOf(HasSubstr(space + "/bare has no controller"), HasSubstr("DRAIN_USE_FORCE"),
                    HasSubstr("kubectl delete pod --namespace " + space + " bare"),
                    Not(HasSubstr("idle"))));
  EXPECT_EQ(AwaitEvent("GpuPodsRemain"), refused.error().message);
  EXPECT_TRUE(Has("idle"));
  EXPECT_TRUE(Has("bare"));
  EXPECT_FALSE(IsCordoned());
}

// What a person does about it is seen at once.
TEST_F(FormerUsersTest, GoesOnWhenSomebodyEndsIt) {
  GoToPassthrough();
  MakeGpu("0000:65:00.0", "");
  MakeUser("idle", "nvidia.com/gpu");
  MakeUser("bare", "nvidia.com/gpu", "");
  options_.users_timeout = std::chrono::seconds(300);
  std::thread person([&] {
    AwaitEvent("GpuPodsRemain");
    EXPECT_TRUE(client_->Delete(kube::kPods, {options_.namespace_name, "bare"}));
  });
  const auto done = Run();
  person.join();
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_FALSE(Has("idle"));
}

TEST_F(FormerUsersTest, WithoutTheRightToEvictAllAreNamed) {
  GoToPassthrough();
  MakeGpu("0000:65:00.0", "");
  MakeUser("idle", "nvidia.com/gpu");
  options_.evict_gpu_pods = false;
  const auto refused = Run();
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message,
              AllOf(HasSubstr("/idle may not be evicted (ENABLE_GPU_POD_EVICTION)"),
                    HasSubstr("kubectl delete pod")));
  EXPECT_TRUE(Has("idle"));
}

// Its pod was replaced: nothing changes hands, and virtual machines run.
TEST_F(FormerUsersTest, NobodyLeavesWhileAllGpusAreWhereTheyBelong) {
  GoToPassthrough();
  MakeGpu("0000:65:00.0", "vfio-pci");
  MakeUser("alias", "nvidia.com/gpu-of-kata");
  MakeUser("machine", kMachineGpu);
  const auto before = Node();
  const auto done = Run();
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_TRUE(Has("alias"));
  EXPECT_TRUE(Has("machine"));
  EXPECT_EQ(Node(), before);
}

// One GPU could not be bound; a virtual machine may have the other.
TEST_F(FormerUsersTest, MachinesStayWhileMoreGpusComeToThem) {
  GoToPassthrough();
  MakeGpu("0000:65:00.0", "vfio-pci");
  MakeGpu("0000:66:00.0", "");
  MakeUser("machine", kMachineGpu);
  MakeUser("idle", "nvidia.com/gpu");
  const auto done = Run();
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_TRUE(Has("machine"));
  EXPECT_FALSE(Has("idle"));
}

TEST_F(FormerUsersTest, MachinesLeaveBeforeContainersGetTheGpu) {
  SetLabel(api::kDeployDriver, "true");
  MakeGpu("0000:65:00.0", "vfio-pci");
  // The upgrade controller evicts for new drivers only.
  ASSERT_TRUE(client_->Patch(
      kube::kNodes, {"", node_}, kube::PatchType::kMerge,
      {{"metadata", {{"annotations", {{"nvidia.com/gpu-driver-upgrade-enabled", "true"}}}}}}));
  MakeUser("stopped", kMachineGpu);
  MakeUser("kata", "nvidia.com/pgpu");
  MakeUser("network", "nvidia.com/hostdev");
  EXPECT_EQ(Run().error().reason, "GpusHeldByVfio") << "no kernel has done it";
  EXPECT_FALSE(Has("stopped"));
  EXPECT_FALSE(Has("kata"));
  EXPECT_TRUE(Has("network"));
}

// The VFIO manager has ended, and taken back a GPU that nobody has open.
TEST_F(FormerUsersTest, MachinesLeaveAlsoWhenVfioHasNoGpuAnyMore) {
  MakeGpu("0000:65:00.0", "");
  for (const auto label : {api::kDeployDriver, api::kDeployVgpuManager}) {
    SetLabel(label, "true");
    MakeUser("stopped", kMachineGpu);
    const auto done = Run();
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_FALSE(Has("stopped")) << label;
  }
}

TEST_F(FormerUsersTest, ContainersLeaveBeforeGpusAreCut) {
  SetLabel(api::kDeployVgpuManager, "true");
  MakeGpu("0000:65:00.0", "");
  MakeUser("idle", "nvidia.com/gpu");
  MakeUser("machine", kVgpu);
  const auto done = Run();
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_FALSE(Has("idle"));
  EXPECT_TRUE(Has("machine")) << "its vGPUs stay";
}

TEST_F(FormerUsersTest, MachinesWithVgpusLeaveBeforeContainersGetTheGpu) {
  SetLabel(api::kDeployDriver, "true");
  root_.Write("run/validations/workload-type", "vm-vgpu\n");
  MakeGpu("0000:65:00.0", "");
  MakeUser("machine", kVgpu);
  options_.evict_gpu_pods = false;
  EXPECT_EQ(Run().error().reason, "GpuPodsRemain");
  EXPECT_TRUE(std::filesystem::exists(root_.path() / "run/validations/workload-type"))
      << "the next run has to know";
  options_.evict_gpu_pods = true;
  const auto done = Run();
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_FALSE(Has("machine"));
  EXPECT_FALSE(std::filesystem::exists(root_.path() / "run/validations/workload-type"));
}

// Between the evictions: the node is cordoned, and some pods are gone.
TEST_F(FormerUsersTest, ARunThatDiedIsEnded) {
  GoToPassthrough();
  MakeGpu("0000:65:00.0", "");
  MakeUser("left", "nvidia.com/gpu");
  ASSERT_TRUE(client_->Patch(
      kube::kNodes, {"", node_}, kube::PatchType::kMerge,
      {{"metadata", {{"annotations", {{std::string(desired::kCordonedByDriverManager), "true"}}}}},
       {"spec", {{"unschedulable", true}}}}));
  const auto done = Run();
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_FALSE(Has("left"));
  EXPECT_FALSE(IsCordoned());
}

// Else a new pod could get a GPU after all have left.
TEST_F(FormerUsersTest, WhoGivesGpusToPodsLeavesFirst) {
  GoToPassthrough();
  MakeGpu("0000:65:00.0", "");
  ASSERT_TRUE(client_->Patch(kube::kNodes, {"", node_}, kube::PatchType::kMerge,
                             {{"metadata", {{"labels", {{kPlugin, nullptr}}}}}}));
  MakeOwnedPod("plugin", "nvidia-device-plugin-daemonset");
  MakeUser("idle", "nvidia.com/gpu");
  options_.owners_timeout = std::chrono::seconds(5);
  const auto refused = UninstallDriver(options_, client_, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().reason, "OperandsStillRunning");
  EXPECT_TRUE(Has("idle"));
}

}  // namespace
}  // namespace pitcrew::node::driver_manager
