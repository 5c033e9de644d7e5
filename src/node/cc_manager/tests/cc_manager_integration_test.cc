// The confidential computing manager on a real kube-apiserver, and on GPUs whose registers behave
// as the document says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "api/cc_mode.h"
#include "api/labels.h"
#include "apiserver/api_server.h"
#include "apiserver/test_node.h"
#include "apiserver/unsteady_writer.h"
#include "node/cc_manager/change.h"
#include "node/cc_manager/daemon.h"
#include "tests/support/daemon_thread.h"
#include "tests/support/security_processor.h"
#include "tests/support/vgpu_tree.h"

namespace pitcrew::node::cc_manager {
namespace {

using ::pitcrew::testing::ApiServer;
using ::pitcrew::testing::TestNode;
using ::pitcrew::testing::UnsteadyWriter;
using ::pitcrew::testing::WaitForNodeEvent;
using test_support::DaemonThread;
using test_support::SecurityProcessor;
using test_support::VgpuTree;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

constexpr const char* kPaused = "paused-for-cc-mode-change";

class CcManagerTest : public ::testing::Test {
 protected:
  CcManagerTest()
      : client_(ApiServer::Shared().MakeClient()),
        node_(client_, std::string(api::kCcModeState)),
        gpu_(tree_.root(), "0000:41:00.0", SecurityProcessor::Kind::kHopper) {
    tree_.Write("sys/module/kvm_intel/parameters/tdx", "Y\n");
    options_.node_name = node_.name();
    options_.namespace_name = node_.namespace_name();
    options_.root = tree_.root();
    options_.host_root = tree_.root();
    options_.ready_file = tree_.root() / "run/nvidia/validations/.cc-manager-ctr-ready";
    options_.default_mode = "off";
    options_.firmware_patience = 200ms;
    options_.first_retry = 1s;
  }

  [[nodiscard]] std::function<base::Status(const io::StopToken&)> Manager() const {
    return [this](const io::StopToken& stop) { return Daemon(options_, client_, stop).Run(); };
  }
  void Want(const std::optional<std::string>& mode) { node_.Label(api::kCcMode, mode); }
  [[nodiscard]] bool Ready() const { return std::filesystem::exists(options_.ready_file); }
  bool WaitForLabel(std::string_view label, const std::string& value) {
    return node_.WaitUntil([&](const codec::Json& node) {
      return codec::FindString(node, {"metadata", "labels", label}) == value;
    });
  }

  const VgpuTree tree_;
  const std::shared_ptr<kube::Client> client_;
  TestNode node_;
  SecurityProcessor gpu_;
  Options options_;
};

TEST_F(CcManagerTest, FollowsTheLabel) {
  DaemonThread manager(Manager());
  EXPECT_THAT(node_.StatesUntil("off"), ElementsAre("off"));
  EXPECT_EQ(node_.LabelOf(api::kCcReadyState), "false");
  EXPECT_TRUE(Ready());
  Want("on");
  EXPECT_THAT(node_.StatesUntil("on"), ElementsAre("on"));
  EXPECT_EQ(node_.LabelOf(api::kCcReadyState), "true");
  EXPECT_EQ(gpu_.mode(), "on");
  Want("devtools");
  EXPECT_THAT(node_.StatesUntil("devtools"), ElementsAre("devtools"));
  EXPECT_EQ(node_.LabelOf(api::kCcReadyState), "");
  Want("ppcie");
  EXPECT_THAT(node_.StatesUntil("ppcie"), ElementsAre("ppcie"));
  EXPECT_EQ(node_.LabelOf(api::kCcReadyState), "true");
  EXPECT_THAT(node_.AnnotationOf(api::kCcModeProgress),
              AllOf(HasSubstr("\"done\""), HasSubstr("ppcie")));
  Want("maybe");
  EXPECT_THAT(node_.StatesUntil("failed"), ElementsAre("failed"));
  EXPECT_FALSE(Ready());
  EXPECT_EQ(gpu_.mode(), "ppcie") << "nothing is torn down for a word that nobody knows";
  Want(std::nullopt);
  EXPECT_THAT(node_.StatesUntil("off"), ElementsAre("off"));
  EXPECT_EQ(gpu_.mode(), "off");
  EXPECT_TRUE(Ready());
  ASSERT_TRUE(manager.Stop());
  EXPECT_FALSE(Ready()) << "nobody looks after the mode any more";
  EXPECT_THAT(node_.EventReasons(),
              AllOf(Contains("CcModeChanged"), Contains("CcModeChangeFailed")));
}

TEST_F(CcManagerTest, OperandsLeaveBeforeAnythingChangesAndComeBack) {
  RecordProperty("holds", "virtualisation-and-olm.md #64");
  node_.Label(api::kDeployVfioManager, "true");
  node_.Label(api::kDeployKataSandboxDevicePlugin, "true");
  node_.Label(api::kDeploySandboxValidator, "false");
  node_.MakePod("plugin", "nvidia-kata-sandbox-device-plugin-daemonset");
  node_.MakePod("other", "somebody-else");
  Want("on");
  DaemonThread manager(Manager());
  ASSERT_TRUE(WaitForLabel(api::kDeployKataSandboxDevicePlugin, kPaused));
  EXPECT_EQ(node_.LabelOf(api::kDeployVfioManager), kPaused);
  EXPECT_EQ(node_.LabelOf(api::kDeploySandboxValidator), "false");
  EXPECT_EQ(gpu_.mode(), "off") << "its plugin is still there";
  EXPECT_FALSE(Ready());
  // The DaemonSet's controller takes the pod away when the label says so.
  node_.DeletePod("plugin");
  EXPECT_THAT(node_.StatesUntil("on"), ElementsAre("on"));
  EXPECT_EQ(node_.LabelOf(api::kDeployKataSandboxDevicePlugin), "true");
  EXPECT_EQ(node_.LabelOf(api::kDeployVfioManager), "true");
  EXPECT_EQ(node_.LabelOf(api::kDeploySandboxValidator), "false");
  EXPECT_TRUE(Ready());
}

// The change itself is at its end; the operands are not.
TEST_F(CcManagerTest, OperandsThatCouldNotBeResumedComeBackAlsoAfterAFinalFailure) {
  UnsteadyWriter writer(node_.name());
  node_.Label(api::kDeployVfioManager, kPaused);
  Want("maybe");
  DaemonThread manager(
      [&](const io::StopToken& stop) { return Daemon(options_, writer.client(), stop).Run(); });
  ASSERT_TRUE(WaitForNodeEvent(client_, node_.name(), "CcModeChangeFailed"));
  EXPECT_EQ(node_.LabelOf(api::kDeployVfioManager), kPaused);
  writer.Allow();
  EXPECT_TRUE(WaitForLabel(api::kDeployVfioManager, "true"));
}

TEST_F(CcManagerTest, AnotherWishEndsTheWait) {
  node_.Label(api::kDeployVfioManager, "true");
  node_.MakePod("vfio", "nvidia-vfio-manager");
  Want("on");
  DaemonThread manager(Manager());
  ASSERT_TRUE(WaitForLabel(api::kDeployVfioManager, kPaused));
  // What is in force: no change, so nobody has to leave.
  Want("off");
  EXPECT_THAT(node_.StatesUntil("off"), ElementsAre("off"));
  EXPECT_EQ(node_.LabelOf(api::kDeployVfioManager), "true");
  EXPECT_EQ(gpu_.mode(), "off");
}

TEST_F(CcManagerTest, AFailureIsTakenBackAndTriedAgain) {
  RecordProperty("holds", "virtualisation-and-olm.md #63, #64");
  node_.Label(api::kDeployVfioManager, "true");
  gpu_.faults().refuses = 8;
  options_.first_retry = 5s;  // not before what is looked at here
  Want("on");
  DaemonThread manager(Manager());
  EXPECT_THAT(node_.StatesUntil("failed"), ElementsAre("failed"));
  EXPECT_EQ(node_.LabelOf(api::kCcReadyState), "");
  EXPECT_EQ(node_.LabelOf(api::kDeployVfioManager), "true");
  EXPECT_THAT(node_.AnnotationOf(api::kCcModeProgress), HasSubstr("the modes before are back"));
  EXPECT_EQ(gpu_.resets(), 0);
  EXPECT_FALSE(Ready());
  gpu_.faults().refuses = -1;
  // Without anybody's doing.
  EXPECT_THAT(node_.StatesUntil("on"), Contains("on"));
  EXPECT_EQ(gpu_.mode(), "on");
  EXPECT_TRUE(Ready());
}

TEST_F(CcManagerTest, AVirtualMachineKeepsItsGpuAndItsOperands) {
  RecordProperty("holds", "virtualisation-and-olm.md #65");
  node_.Label(api::kDeployVfioManager, "true");
  std::filesystem::create_directory_symlink("../../../../kernel/iommu_groups/21",
                                            gpu_.folder() / "iommu_group");
  tree_.AddVfioUser(4242, "21", "qemu-kvm -name guest=sandbox-1,debug-threads=on");
  Want("on");
  DaemonThread manager(Manager());
  EXPECT_THAT(node_.StatesUntil("failed"), ElementsAre("failed"));
  EXPECT_EQ(node_.LabelOf(api::kDeployVfioManager), "true") << "nobody is disturbed for nothing";
  EXPECT_EQ(gpu_.mode(), "off");
  tree_.RemoveProcess(4242);
  EXPECT_THAT(node_.StatesUntil("on"), Contains("on"));
  ASSERT_TRUE(manager.Stop());
  EXPECT_THAT(node_.EventReasons(), Contains("CcModeChangeFailed"));
}

TEST_F(CcManagerTest, AHostThatCannotDefaultsToOffAndFollowsALabelWithAWarning) {
  RecordProperty("holds", "virtualisation-and-olm.md #66");
  tree_.Write("sys/module/kvm_intel/parameters/tdx", "N\n");
  options_.default_mode = "on";
  DaemonThread manager(Manager());
  EXPECT_THAT(node_.StatesUntil("off"), ElementsAre("off"));
  EXPECT_EQ(gpu_.mode(), "off");
  Want("on");
  EXPECT_THAT(node_.StatesUntil("on"), ElementsAre("on"));
  EXPECT_EQ(gpu_.mode(), "on");
  ASSERT_TRUE(manager.Stop());
  EXPECT_THAT(node_.EventReasons(), Contains("HostNotConfidential"));
}

TEST_F(CcManagerTest, AManagerThatDiedInTheMiddleIsPutRight) {
  RecordProperty("holds", "virtualisation-and-olm.md #67");
  // It had told the firmware, and not yet reset the GPU.
  node_.Label(api::kDeployVfioManager, kPaused);
  node_.Label(api::kDeployKataSandboxDevicePlugin, "mine_" + std::string(kPaused));
  gpu_.Set(8, 1);
  gpu_.Set(10, 2);
  tree_.Write("run/nvidia/cc/journal.json",
              R"({"version":1,"before":[{"pci":"0000:41:00.0","mode":"off","switch":false}]})");
  {
    Want("on");
    DaemonThread manager(Manager());
    EXPECT_THAT(node_.StatesUntil("on"), ElementsAre("on"));
    EXPECT_EQ(gpu_.mode(), "on");
    EXPECT_EQ(node_.LabelOf(api::kDeployVfioManager), "true");
    EXPECT_EQ(node_.LabelOf(api::kDeployKataSandboxDevicePlugin), "mine");
  }
  EXPECT_FALSE(std::filesystem::exists(options_.journal()));
  // And one that had finished, but for saying so.
  node_.Label(api::kDeployVfioManager, kPaused);
  node_.Label(api::kCcModeState, "failed");
  DaemonThread again(Manager());
  EXPECT_THAT(node_.StatesUntil("on"), Contains("on"));
  EXPECT_EQ(node_.LabelOf(api::kDeployVfioManager), "true");
}

TEST_F(CcManagerTest, TheSameWhereTheLabelIsUnknownNow) {
  RecordProperty("holds", "virtualisation-and-olm.md #67");
  gpu_.Set(8, 1);
  tree_.Write("run/nvidia/cc/journal.json",
              R"({"version":1,"before":[{"pci":"0000:41:00.0","mode":"off","switch":false}]})");
  Want("maybe");
  DaemonThread manager(Manager());
  EXPECT_THAT(node_.StatesUntil("failed"), ElementsAre("failed"));
  EXPECT_EQ(gpu_.setting(8), 0U) << "the next reset must not surprise anybody";
  EXPECT_FALSE(std::filesystem::exists(options_.journal()));
}

class HalfDone : public CcManagerTest {
 protected:
  // A word that nobody knows fails for good, but for what an earlier manager left half done.
  HalfDone() { Want("maybe"); }
  void ExpectThatItIsStillHalfDone() {
    EXPECT_THAT(node_.StatesUntil("failed"), ElementsAre("failed"));
    EXPECT_THAT(node_.AnnotationOf(api::kCcModeProgress),
                AllOf(HasSubstr("there is no mode"), HasSubstr("still half done")));
  }
  // Without anybody's doing on the node.
  void ExpectThatItIsTakenUpAgain() {
    EXPECT_TRUE(node_.WaitUntil([](const codec::Json& node) {
      const auto progress =
          codec::FindString(node, {"metadata", "annotations", api::kCcModeProgress});
      return progress.contains("there is no mode") && !progress.contains("half done");
    }));
    EXPECT_FALSE(std::filesystem::exists(options_.journal()));
  }
};

TEST_F(HalfDone, AGpuThatDidNotGoBackIsTakenUpAgain) {
  RecordProperty("holds", "virtualisation-and-olm.md #67");
  gpu_.Set(8, 1);
  gpu_.faults().refuses = 8;
  tree_.Write("run/nvidia/cc/journal.json",
              R"({"version":1,"before":[{"pci":"0000:41:00.0","mode":"off","switch":false}]})");
  DaemonThread manager(Manager());
  ExpectThatItIsStillHalfDone();
  EXPECT_TRUE(std::filesystem::exists(options_.journal()));
  gpu_.faults().refuses = -1;
  ExpectThatItIsTakenUpAgain();
  EXPECT_EQ(gpu_.setting(8), 0U) << "the next reset must not surprise anybody";
}

TEST_F(HalfDone, AJournalThatCannotBeLookedForMayLieThere) {
  tree_.Write("run/nvidia/cc/other", "");
  std::filesystem::create_symlink(options_.journal(), options_.journal());
  DaemonThread manager(Manager());
  ExpectThatItIsStillHalfDone();
  std::filesystem::remove(options_.journal());
  ExpectThatItIsTakenUpAgain();
}

}  // namespace
}  // namespace pitcrew::node::cc_manager
