// The vGPU device manager on a real kube-apiserver, and on virtual functions of the vendor-specific
// VFIO framework.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/labels.h"
#include "api/vgpu_config.h"
#include "apiserver/api_server.h"
#include "apiserver/test_node.h"
#include "apiserver/unsteady_writer.h"
#include "node/vgpu_device_manager/change.h"
#include "node/vgpu_device_manager/daemon.h"
#include "tests/support/daemon_thread.h"
#include "tests/support/vgpu_tree.h"

namespace pitcrew::node::vgpu_device_manager {
namespace {

using ::pitcrew::testing::ApiServer;
using ::pitcrew::testing::TestNode;
using ::pitcrew::testing::UnsteadyWriter;
using ::pitcrew::testing::WaitForNodeEvent;
using test_support::DaemonThread;
using test_support::VgpuTree;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::string_view kTypes = "1414 : NVIDIA H200X-1-18C\n1420 : NVIDIA H200X-35C\n";
constexpr std::string_view kConfigs =
    "version: v1\n"
    "vgpu-configs:\n"
    "  default: [{devices: all, vgpu-devices: {H200X-35C: 1}}]\n"
    "  three: [{devices: all, vgpu-devices: {H200X-35C: 3}}]\n"
    "  none: [{devices: all, vgpu-devices: {}}]\n"
    "  many: [{devices: all, vgpu-devices: {H200X-35C: 9}}]\n";
const std::vector<std::string> kFunctions = {"0000:41:00.1", "0000:41:00.2", "0000:41:00.3"};

constexpr std::string_view kPlugin = api::kDeploySandboxDevicePlugin;
constexpr std::string_view kValidator = api::kDeploySandboxValidator;
constexpr const char* kPaused = "paused-for-vgpu-change";

class VgpuDeviceManagerTest : public ::testing::Test {
 protected:
  VgpuDeviceManagerTest()
      : client_(ApiServer::Shared().MakeClient()),
        node_(client_, std::string(api::kVgpuConfigState)) {
    tree_.AddGpu("0000:41:00.0", "2335");
    int group = 20;
    for (const auto& function : kFunctions) {
      tree_.AddVendorFunction("0000:41:00.0", function, group++, kTypes);
    }
    tree_.Write("config/config.yaml", kConfigs);
    options_.node_name = node_.name();
    options_.namespace_name = node_.namespace_name();
    options_.config_file = tree_.root() / "config/config.yaml";
    options_.default_config = "default";
    options_.host_root = tree_.root();
    options_.sys_root = tree_.root();
    options_.driver_root = tree_.root() / "driver";
  }

  [[nodiscard]] std::function<base::Status(const io::StopToken&)> Manager() const {
    return [this](const io::StopToken& stop) { return Daemon(options_, client_, stop).Run(); };
  }
  void Want(const std::optional<std::string>& config) { node_.Label(api::kVgpuConfig, config); }
  std::vector<std::string> Types() const {
    std::vector<std::string> types;
    for (const auto& function : kFunctions) types.push_back(tree_.VendorType(function));
    return types;
  }
  std::string Told() { return node_.AnnotationOf(api::kVgpuConfigProgress); }
  bool WaitForLabel(std::string_view label, const std::string& value) {
    return node_.WaitUntil([&](const codec::Json& node) {
      return codec::FindString(node, {"metadata", "labels", label}) == value;
    });
  }

  const VgpuTree tree_;
  const std::shared_ptr<kube::Client> client_;
  TestNode node_;
  Options options_;
};

TEST_F(VgpuDeviceManagerTest, FollowsALabelThroughItsChanges) {
  DaemonThread manager(Manager());
  // Without the label the default holds.
  EXPECT_THAT(node_.StatesUntil("success"), ElementsAre("pending", "success"));
  EXPECT_THAT(Types(), ElementsAre("1420", "0", "0"));
  Want("three");
  EXPECT_THAT(node_.StatesUntil("success"), ElementsAre("pending", "success"));
  EXPECT_THAT(Types(), Each("1420"));
  EXPECT_THAT(Told(), AllOf(HasSubstr("\"done\""), HasSubstr("three")));
  // Nothing is torn down for a name that nobody knows, nor for what does not fit.
  Want("four");
  EXPECT_THAT(node_.StatesUntil("failed"), ElementsAre("failed"));
  EXPECT_THAT(Told(), HasSubstr("selected vgpu-config not present: four; there are default, "));
  Want("three");
  EXPECT_THAT(node_.StatesUntil("success"), ElementsAre("success"));
  Want("many");
  EXPECT_THAT(node_.StatesUntil("failed"), ElementsAre("failed"));
  EXPECT_THAT(Told(), HasSubstr("what fits is up to 3 x H200X-35C"));
  EXPECT_THAT(Types(), Each("1420"));
  Want("none");
  EXPECT_THAT(node_.StatesUntil("success"), ElementsAre("pending", "success"));
  EXPECT_THAT(Types(), Each("0"));
  // Upstream keeps what was there: vgpu-device-manager.md section 9, weakness 8.
  Want(std::nullopt);
  EXPECT_THAT(node_.StatesUntil("success"), ElementsAre("pending", "success"));
  EXPECT_THAT(Types(), ElementsAre("1420", "0", "0"));
  ASSERT_TRUE(manager.Stop());
  EXPECT_THAT(node_.EventReasons(), AllOf(Contains("VgpusChanged"), Contains("VgpuChangeFailed")));
}

TEST_F(VgpuDeviceManagerTest, OperandsLeaveBeforeAnythingChangesAndComeBack) {
  node_.Label(kPlugin, "true");
  node_.Label(kValidator, "true");
  node_.MakePod("plugin", "nvidia-sandbox-device-plugin-daemonset");
  node_.MakePod("other", "somebody-else");
  DaemonThread manager(Manager());
  ASSERT_TRUE(WaitForLabel(kPlugin, kPaused));
  EXPECT_EQ(node_.LabelOf(kValidator), kPaused);
  EXPECT_THAT(Types(), Each("0")) << "it reads vGPUs once, and is still there";
  // The DaemonSet's controller takes the pod away when the label says so.
  node_.DeletePod("plugin");
  EXPECT_THAT(node_.StatesUntil("success"), ElementsAre("pending", "success"));
  EXPECT_THAT(Types(), ElementsAre("1420", "0", "0"));
  EXPECT_EQ(node_.LabelOf(kPlugin), "true");
  EXPECT_EQ(node_.LabelOf(kValidator), "true");
}

// The change itself is at its end; the operands are not.
TEST_F(VgpuDeviceManagerTest, OperandsThatCouldNotBeResumedComeBackAlsoAfterAFinalFailure) {
  UnsteadyWriter writer(node_.name());
  options_.first_retry = std::chrono::seconds(1);
  node_.Label(kPlugin, kPaused);
  Want("four");
  DaemonThread manager(
      [&](const io::StopToken& stop) { return Daemon(options_, writer.client(), stop).Run(); });
  ASSERT_TRUE(WaitForNodeEvent(client_, node_.name(), "VgpuChangeFailed"));
  EXPECT_EQ(node_.LabelOf(kPlugin), kPaused);
  writer.Allow();
  EXPECT_TRUE(WaitForLabel(kPlugin, "true"));
}

TEST_F(VgpuDeviceManagerTest, LabelsThatKeepAnOperandAwayStay) {
  RecordProperty("holds", "vgpu-device-manager.md #15");
  node_.Label(kPlugin, "false");
  node_.Label(kValidator, "");
  DaemonThread manager(Manager());
  EXPECT_THAT(node_.StatesUntil("success"), ElementsAre("pending", "success"));
  EXPECT_EQ(node_.LabelOf(kPlugin), "false");
  EXPECT_EQ(node_.LabelOf(kValidator), "");
}

TEST_F(VgpuDeviceManagerTest, AnotherWishEndsTheWait) {
  node_.Label(kPlugin, "true");
  node_.MakePod("plugin", "nvidia-sandbox-device-plugin-daemonset");
  DaemonThread manager(Manager());
  ASSERT_TRUE(WaitForLabel(kPlugin, kPaused));
  // What is in force: no change, so nobody has to leave.
  Want("none");
  EXPECT_THAT(node_.StatesUntil("success"), Contains("success"));
  EXPECT_EQ(node_.LabelOf(kPlugin), "true");
  EXPECT_THAT(Types(), Each("0"));
}

TEST_F(VgpuDeviceManagerTest, AChangeThatFailsIsTakenBack) {
  node_.Label(kPlugin, "true");
  for (const auto& function : kFunctions) tree_.SetVendorType(function, "1414");
  // Its room shows only when its turn comes.
  tree_.Write("sys/bus/pci/devices/" + kFunctions[2] + "/nvidia/creatable_vgpu_types",
              "1414 : NVIDIA H200X-1-18C\n");
  DaemonThread manager(Manager());
  Want("three");
  EXPECT_THAT(node_.StatesUntil("failed"), Contains("failed"));
  ASSERT_TRUE(node_.WaitUntil([](const codec::Json& node) {
    return codec::FindString(node, {"metadata", "annotations", api::kVgpuConfigProgress})
               .find("the vGPUs before are back") != std::string::npos;
  }));
  EXPECT_EQ(node_.LabelOf(kPlugin), "true");
}

TEST_F(VgpuDeviceManagerTest, AVirtualMachineThatHoldsAVgpuIsNamed) {
  node_.Label(kPlugin, "true");
  tree_.SetVendorType(kFunctions[1], "1414");
  tree_.AddVfioUser(4242, "21", "qemu-kvm -name guest=default_vm,debug-threads=on");
  DaemonThread manager(Manager());
  EXPECT_THAT(node_.StatesUntil("failed"), ElementsAre("failed"));
  EXPECT_THAT(Told(), HasSubstr("qemu-kvm (process 4242, virtual machine default_vm)"));
  EXPECT_THAT(Types(), ElementsAre("0", "1414", "0"));
  EXPECT_EQ(node_.LabelOf(kPlugin), "true") << "nobody is disturbed for a change that cannot be";
  tree_.RemoveProcess(4242);
  // Looked at again after a while, or when the file changes.
  tree_.Write("config/config.yaml", kConfigs);
  EXPECT_THAT(node_.StatesUntil("success"), ElementsAre("pending", "success"));
  EXPECT_THAT(Types(), ElementsAre("1420", "0", "0"));
}

TEST_F(VgpuDeviceManagerTest, ARepairedFileIsTriedAgain) {
  tree_.Write("config/config.yaml", "version: v1\nvgpu-configs: 7\n");
  DaemonThread manager(Manager());
  EXPECT_THAT(node_.StatesUntil("failed"), ElementsAre("failed"));
  EXPECT_THAT(Told(), HasSubstr("unable to validate the selected vGPU configuration"));
  tree_.Write("config/config.yaml", kConfigs);
  EXPECT_THAT(node_.StatesUntil("success"), ElementsAre("pending", "success"));
}

TEST_F(VgpuDeviceManagerTest, AManagerThatDiedInTheMiddleIsPutRight) {
  node_.Label(kPlugin, kPaused);
  node_.Label(kValidator, kPaused);
  node_.Label(api::kVgpuConfigState, "pending");
  tree_.SetVendorType(kFunctions[0], "1420");
  tree_.Write("run/nvidia/vgpu/journal.json",
              R"({"version":1,"before":[{"pci":"0000:41:00.0","id":"0x233510DE:0x000010DE",)"
              R"("functions":3,"vgpus":[]}]})");
  // It had begun with three.
  node_.Label(api::kVgpuConfig, "three");
  {
    DaemonThread manager(Manager());
    EXPECT_THAT(node_.StatesUntil("success"), Contains("success"));
    EXPECT_THAT(Types(), Each("1420"));
    EXPECT_EQ(node_.LabelOf(kPlugin), "true");
    EXPECT_EQ(node_.LabelOf(kValidator), "true");
  }
  EXPECT_FALSE(std::filesystem::exists(options_.journal()));
  // And one that had finished, but for saying so.
  node_.Label(kPlugin, kPaused);
  node_.Label(api::kVgpuConfigState, "pending");
  DaemonThread again(Manager());
  EXPECT_THAT(node_.StatesUntil("success"), ElementsAre("pending", "success"));
  EXPECT_EQ(node_.LabelOf(kPlugin), "true");
}

TEST_F(VgpuDeviceManagerTest, VgpusThatAreHalfMadeGoBackAlsoWhereNothingPossibleIsWanted) {
  options_.first_retry = std::chrono::seconds(1);
  tree_.SetVendorType(kFunctions[1], "1420");
  tree_.AddVfioUser(4242, "21", "qemu-kvm -name guest=default_vm,debug-threads=on");
  tree_.Write("run/nvidia/vgpu/journal.json",
              R"({"version":1,"before":[{"pci":"0000:41:00.0","id":"0x233510DE:0x000010DE",)"
              R"("functions":3,"vgpus":[]}]})");
  Want("four");
  const auto told = [](const codec::Json& node) {
    return codec::FindString(node, {"metadata", "annotations", api::kVgpuConfigProgress});
  };
  DaemonThread manager(Manager());
  ASSERT_TRUE(node_.WaitUntil([&](const codec::Json& node) {
    return told(node).find("an earlier change is still half done") != std::string::npos;
  }));
  EXPECT_THAT(Types(), ElementsAre("0", "1420", "0"));
  tree_.RemoveProcess(4242);
  // Without anybody's doing. The word is still one that nobody knows.
  ASSERT_TRUE(node_.WaitUntil([&](const codec::Json& node) {
    return told(node).find("not present: four") != std::string::npos &&
           told(node).find("half done") == std::string::npos;
  }));
  EXPECT_THAT(Types(), Each("0"));
  EXPECT_FALSE(std::filesystem::exists(options_.journal()));
}

}  // namespace
}  // namespace pitcrew::node::vgpu_device_manager
