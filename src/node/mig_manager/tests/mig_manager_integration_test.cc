// The MIG manager on a real kube-apiserver and on simulated GPUs.
#include <cstdlib>

#include "node/mig/change.h"
#include "node/validations/mig_change.h"
#include "support_mig_manager.h"

namespace pitcrew::node::mig_manager {
namespace {

TEST_F(MigManagerTest, FollowsALabelThroughItsChanges) {  // mig-manager.md 9.4
  Manager manager(options_, client_);
  Want("all-1g.10gb");
  EXPECT_THAT(StatesUntil("success"), ElementsAre("pending", "success"));
  EXPECT_THAT(Geometry(), ElementsAre(kSeven, kSeven));
  EXPECT_EQ(Progress().phase, "done");
  EXPECT_THAT(Progress().gpus, ElementsAre(std::pair(0, "done"), std::pair(1, "done")));
  Want("all-3g.40gb");
  EXPECT_THAT(StatesUntil("success"), ElementsAre("pending", "success"));
  EXPECT_THAT(Geometry(), ElementsAre(kTwo, kTwo));
  // Nothing is torn down for a name that nobody knows, and operands are left in peace.
  Want("all-9g.90gb");
  EXPECT_THAT(StatesUntil("failed"), ElementsAre("failed"));
  EXPECT_THAT(Geometry(), ElementsAre(kTwo, kTwo));
  EXPECT_THAT(Progress().message, HasSubstr("selected mig-config not present: all-9g.90gb"));
  // The one that is in force needs no change.
  Want("all-3g.40gb");
  EXPECT_THAT(StatesUntil("success"), ElementsAre("success"));
  Want("all-disabled");
  EXPECT_THAT(StatesUntil("success"), ElementsAre("pending", "success"));
  EXPECT_THAT(Geometry(), ElementsAre(kWhole, kWhole));
  ASSERT_TRUE(manager.Stop());
  EXPECT_THAT(EventReasons(), Contains("MigChanged"));
  EXPECT_THAT(EventReasons(), Contains("MigChangeFailed"));
}

TEST_F(MigManagerTest, TellsWhichConfigurationsThereAre) {  // 9.2
  Manager manager(options_, client_);
  Want("all-disabled");
  EXPECT_THAT(StatesUntil("success"), ElementsAre("success"));
  const auto map =
      client_->Get(kube::kConfigMaps, {options_.namespace_name, node_ + "-mig-config"});
  ASSERT_TRUE(map) << map.error().message;
  EXPECT_EQ(LabelOf(*map, "app.kubernetes.io/component"), "nvidia-mig-manager");
  EXPECT_EQ(LabelOf(*map, "nvidia.com/node-name"), node_);
  EXPECT_EQ((*map)["metadata"]["ownerReferences"][0]["name"], "manager");
  const auto text = codec::FindString(*map, {"data", "config.yaml"});
  EXPECT_THAT(text, ::testing::StartsWith("# DO NOT EDIT: Auto-generated MIG configuration"));
  EXPECT_THAT(text, HasSubstr("all-1g.10gb:"));
  EXPECT_EQ(*base::ReadFile(options_.generated_config), text);
}

TEST_F(MigManagerTest, AFileThatIsMissingIsFatal) {  // 9.2
  options_.config_file = options_.host_root / "nowhere.yaml";
  Manager manager(options_, client_);
  const auto done = manager.Wait();
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message, HasSubstr("failed to read custom config"));
}

TEST_F(MigManagerTest, ARepairedFileIsTriedAgain) {
  options_.config_file = gpus_.folder().Write(
      "config/config.yaml",
      "version: v1\nmig-configs:\n  mine: [{devices: all, mig-enabled: true, mig-devices: "
      "{1g.10gb: 8}}]\n");
  Manager manager(options_, client_);
  Want("mine");
  EXPECT_THAT(StatesUntil("failed"), ElementsAre("failed"));
  EXPECT_THAT(Geometry(), ElementsAre(kWhole, kWhole)) << "eight do not fit";
  // Other files in the folder are no reason to try again.
  gpus_.folder().Write("config/manager.log", "a line");
  gpus_.folder().Write("config/manager.log", "another line");
  gpus_.folder().Write(
      "config/config.yaml",
      "version: v1\nmig-configs:\n  mine: [{devices: [1], mig-enabled: true, mig-devices: "
      "{1g.10gb: 7}}, {devices: [0], mig-enabled: false}]\n");
  EXPECT_THAT(StatesUntil("success"), ElementsAre("pending", "success"));
  EXPECT_THAT(Geometry(), ElementsAre(kWhole, kSeven));
}

constexpr const char* kDiscovery = "nvidia.com/gpu.deploy.gpu-feature-discovery";

TEST_F(MigManagerTest, PausesWhoDoesNotFollow) {  // 9.4, steps 7, 8 and 17
  Label(kPlugin, "true");
  Label(kDiscovery, "false");
  MakePod("plugin", Json::object(), "nvidia-device-plugin-daemonset");
  MakePod("old-validation", Json::object(), "nvidia-cuda-validator");
  Manager manager(options_, client_);
  Want("all-1g.10gb");
  ASSERT_TRUE(WaitForProgress("pausing"));
  // The DaemonSet's controller takes the pod away when the label says so.
  const auto paused = kube::Await<Json>(
      client_, kube::kNodes,
      kube::ProjectJson<Json>([](const Json& node) -> base::Result<Json> { return node; }), {},
      [&](const kube::Store<Json>& store) -> base::Result<bool> {
        const auto node = store.Find({"", node_});
        return node.is_present() && LabelOf(**node.value(), kPlugin) == "paused-for-mig-change";
      },
      {}, base::Deadline::After(test_support::kPatience));
  ASSERT_TRUE(paused) << paused.error().message;
  EXPECT_THAT(Geometry(), ElementsAre(kWhole, kWhole)) << "it has the GPUs still open";
  DeletePod("plugin");
  EXPECT_THAT(StatesUntil("success"), ElementsAre("pending", "success"));
  const auto node = Node();
  EXPECT_EQ(LabelOf(node, kPlugin), "true");
  EXPECT_EQ(LabelOf(node, kDiscovery), "false");
  EXPECT_EQ(LabelOf(node, "nvidia.com/gpu.deploy.dcgm"), "") << "never scheduled, never labelled";
  EXPECT_FALSE(client_->Get(kube::kPods, {options_.namespace_name, "old-validation"}));
}

class DividedGpus : public MigManagerTest {
 protected:
  DividedGpus()
      : MigManagerTest(
            "gpus: [{profile: H100-80, count: 2, mig: {enabled: true, devices: {1g.10gb: 7}}}]") {}
};

TEST_F(DividedGpus, WhoFollowsIsNotPaused) {
  Label(kPlugin, "true");
  MakePod("plugin", Json::object(), "nvidia-device-plugin-daemonset");
  const validations::StatusFolder folder(options_.validations);
  const auto follower =
      validations::MigFollower::Register(folder, "nvidia-device-plugin-daemonset");
  ASSERT_TRUE(follower);
  Manager manager(options_, client_);
  Want("all-3g.40gb");
  EXPECT_THAT(StatesUntil("success"), ElementsAre("pending", "success"));
  EXPECT_THAT(Geometry(), ElementsAre(kTwo, kTwo));
  EXPECT_TRUE(client_->Get(kube::kPods, {options_.namespace_name, "plugin"})) << "its pod goes on";
  EXPECT_THAT(*validations::ReadMigChange(folder), IsEmpty());
}

TEST_F(DividedGpus, AGpuInUseStaysAsItIs) {
  gpus_.Gpu({"process", "1", "4242"});
  Label(kPlugin, "true");
  Manager manager(options_, client_);
  Want("all-3g.40gb");
  EXPECT_THAT(StatesUntil("failed"), ElementsAre("pending", "failed"));
  EXPECT_THAT(Geometry(), ElementsAre(kSeven, kSeven)) << "all of them as before";
  EXPECT_EQ(LabelOf(Node(), kPlugin), "true");
  EXPECT_THAT(Progress().message, HasSubstr("4242"));
  ASSERT_TRUE(manager.Stop());
  EXPECT_THAT(EventReasons(), Contains("MigChangeFailed"));
}

// The change itself is at its end; the operands are not.
TEST_F(MigManagerTest, OperandsThatCouldNotBeResumedComeBackAlsoAfterAFinalFailure) {
  UnsteadyWriter writer(node_);
  options_.first_retry = std::chrono::seconds(1);
  Label(kPlugin, "paused-for-mig-change");
  Want("all-9g.90gb");
  Manager manager(options_, writer.client());
  ASSERT_TRUE(WaitForNodeEvent(client_, node_, "MigChangeFailed"));
  EXPECT_EQ(LabelOf(Node(), kPlugin), "paused-for-mig-change");
  writer.Allow();
  EXPECT_THAT(StatesUntil("failed"), ElementsAre("failed"));
  EXPECT_EQ(LabelOf(Node(), kPlugin), "true");
}

class FailingDriver : public DividedGpus {
 protected:
  // From the third change of a GPU on, also on the way back.
  void SetUp() override {
    DividedGpus::SetUp();
    options_.first_retry = std::chrono::seconds(1);
    ::setenv("PITCREW_SIMULATION_MIG_FAULT", "fail-from:3", 1);
  }
  void TearDown() override {
    EndFault();
    DividedGpus::TearDown();
  }
  static void EndFault() { ::unsetenv("PITCREW_SIMULATION_MIG_FAULT"); }
};

TEST_F(FailingDriver, GpusThatAreHalfDividedAreTakenUpAgain) {
  Manager manager(options_, client_);
  Want("all-3g.40gb");
  ASSERT_TRUE(WaitForProgress("going back to the MIG geometry before failed too"));
  EndFault();
  // Without anybody's doing.
  EXPECT_THAT(StatesUntil("success"), Contains("success"));
  EXPECT_THAT(Geometry(), ElementsAre(kTwo, kTwo));
  EXPECT_EQ(mig::WasCutOff(options_.journal()), false);
}

TEST_F(FailingDriver, GpusThatAreHalfDividedGoBackAlsoWhereNothingPossibleIsWanted) {
  Manager manager(options_, client_);
  Want("all-3g.40gb");
  ASSERT_TRUE(WaitForProgress("going back to the MIG geometry before failed too"));
  Want("all-9g.90gb");
  ASSERT_TRUE(WaitForProgress("an earlier change is still half done"));
  EXPECT_EQ(mig::WasCutOff(options_.journal()), true);
  const auto announcement = options_.validations / validations::kMigChange;
  std::filesystem::remove(announcement);
  EndFault();
  // The word is still one that nobody knows, but no GPU stays between two geometries.
  ASSERT_TRUE(WaitForProgressWithout("half done"));
  EXPECT_THAT(Geometry(), ElementsAre(kSeven, kSeven));
  EXPECT_EQ(mig::WasCutOff(options_.journal()), false);
  EXPECT_THAT(Progress().message, HasSubstr("selected mig-config not present: all-9g.90gb"));
  EXPECT_TRUE(std::filesystem::exists(announcement)) << "who follows reads the geometry anew";
}

class GpuPodsTest : public DividedGpus {
 protected:
  void SetUp() override {
    DividedGpus::SetUp();
    options_.pods = PodPolicy::kWait;
    // Only the second GPU is to become another.
    options_.config_file = gpus_.folder().Write(
        "config/config.yaml",
        "version: v1\nmig-configs:\n"
        "  second: [{devices: [1], mig-enabled: true, mig-devices: {3g.40gb: 2}}]\n"
        "  before: [{devices: all, mig-enabled: true, mig-devices: {1g.10gb: 7}}]\n");
    MakeGpuPod("on-first");
    MakeGpuPod("on-second");
    const auto devices = MigUuids();
    held_ = {{options_.namespace_name, "on-first", {{"nvidia.com/gpu", {devices[0]}}}},
             {options_.namespace_name, "on-second", {{"nvidia.com/gpu", {devices[1]}}}}};
    StartKubelet();
  }
  void StartKubelet() {
    kubelet_ = FakePodResources::Start(options_.pod_resources(), held_);
    ASSERT_TRUE(kubelet_);
  }
  void DrainAll() {
    options_.pods = PodPolicy::kDrain;
    options_.drain_force = true;  // nobody makes them again
  }
  // One of each GPU.
  std::vector<std::string> MigUuids() {
    const auto library = nvml::Library::Open({gpus_.driver_root()});
    const auto inventory = (*library)->ReadInventory();
    std::vector<std::string> uuids;
    for (const auto& device : inventory->devices) uuids.push_back(device.mig_devices[0].uuid);
    return uuids;
  }
  bool HasPod(const std::string& name) {
    return client_->Get(kube::kPods, {options_.namespace_name, name}).has_value();
  }
  std::string Name(const std::string& pod) { return options_.namespace_name + "/" + pod; }

  std::vector<rpc::PodDevices> held_;
  std::unique_ptr<FakePodResources> kubelet_;
};

TEST_F(GpuPodsTest, AreWaitedForAndTheOthersGoOn) {
  Manager manager(options_, client_);
  Want("second");
  ASSERT_TRUE(WaitForProgress("waitingFor"));
  EXPECT_THAT(Progress().waiting_for, ElementsAre(Name("on-second")));
  EXPECT_FALSE(Progress().deadline.empty());
  EXPECT_THAT(Geometry(), ElementsAre(kSeven, kSeven));
  // Meanwhile the GPU goes to nobody else.
  const validations::StatusFolder folder(options_.validations);
  EXPECT_THAT(*validations::ReadMigChange(folder), ElementsAre(Uuids()[1]));
  DeletePod("on-second");
  EXPECT_THAT(StatesUntil("success"), ElementsAre("pending", "success"));
  EXPECT_THAT(Geometry(), ElementsAre(kSeven, kTwo));
  EXPECT_TRUE(HasPod("on-first"));
  EXPECT_THAT(*validations::ReadMigChange(folder), IsEmpty());
  ASSERT_TRUE(manager.Stop());
  EXPECT_THAT(EventReasons(), Contains("MigChangeWaits"));
}

TEST_F(GpuPodsTest, ThatStayUntilTheDeadlineEndTheChange) {
  options_.pods_deadline = std::chrono::milliseconds(300);
  Label(kPlugin, "true");
  Manager manager(options_, client_);
  Want("second");
  EXPECT_THAT(StatesUntil("failed"), ElementsAre("pending", "failed"));
  EXPECT_THAT(Geometry(), ElementsAre(kSeven, kSeven));
  EXPECT_THAT(Progress().message, HasSubstr(Name("on-second")));
  EXPECT_TRUE(HasPod("on-second"));
  EXPECT_EQ(LabelOf(Node(), kPlugin), "true");
  EXPECT_THAT(*validations::ReadMigChange(validations::StatusFolder(options_.validations)),
              IsEmpty());
}

TEST_F(GpuPodsTest, AreDrainedWhereThatIsThePolicy) {
  DrainAll();
  Manager manager(options_, client_);
  Want("second");
  EXPECT_THAT(StatesUntil("success"), ElementsAre("pending", "success"));
  EXPECT_THAT(Geometry(), ElementsAre(kSeven, kTwo));
  EXPECT_FALSE(HasPod("on-second"));
  EXPECT_TRUE(HasPod("on-first"));
}

// Sent away again and again it would be otherwise, by a change that its deadline has ended.
TEST_F(GpuPodsTest, ThatAreStillGoingAtTheDeadlineEndTheChangeForGood) {
  DrainAll();
  options_.pods_deadline = std::chrono::milliseconds(300);
  options_.first_retry = std::chrono::seconds(0);
  const auto hold = [&](const Json& by) {
    return client_->Patch(kube::kPods, {options_.namespace_name, "on-second"},
                          kube::PatchType::kMerge, {{"metadata", {{"finalizers", by}}}});
  };
  ASSERT_TRUE(hold({"example.com/held"}));
  Manager manager(options_, client_);
  Want("second");
  EXPECT_THAT(StatesUntil("failed"), ElementsAre("pending", "failed"));
  EXPECT_THAT(Progress().gpus, ElementsAre(std::pair(1, "unchanged")));
  ASSERT_TRUE(hold(nullptr));
  Want("before");
  EXPECT_THAT(StatesUntil("success"), ElementsAre("success")) << "nothing was tried meanwhile";
}

constexpr const char* kUnknown = "waits until it is known which pods use its GPUs";

// Unknown is not absent, and not present either.
TEST_F(GpuPodsTest, NoneIsEvictedWhileTheKubeletIsAway) {
  DrainAll();
  options_.kubelet_restart = test_support::kPatience;
  kubelet_.reset();
  Manager manager(options_, client_);
  Want("second");
  ASSERT_TRUE(WaitForProgress(kUnknown));
  EXPECT_TRUE(HasPod("on-first"));
  EXPECT_TRUE(HasPod("on-second"));
  StartKubelet();
  EXPECT_THAT(StatesUntil("success"), ElementsAre("pending", "success"));
  EXPECT_THAT(Geometry(), ElementsAre(kSeven, kTwo));
  EXPECT_TRUE(HasPod("on-first"));
  EXPECT_FALSE(HasPod("on-second"));
}

TEST_F(GpuPodsTest, NoneIsEvictedWhileTheKubeletDoesNotKnowItsPods) {
  DrainAll();
  options_.kubelet_restart = test_support::kPatience;
  kubelet_->Set({held_[1]});
  kube::WriteOptions status;
  status.subresource = "status";
  const auto taken =
      client_->Patch(kube::kPods, {options_.namespace_name, "on-first"}, kube::PatchType::kMerge,
                     {{"status", {{"startTime", "2026-01-01T00:00:00Z"}}}}, status);
  ASSERT_TRUE(taken) << taken.error().message;
  Manager manager(options_, client_);
  Want("second");
  ASSERT_TRUE(WaitForProgress("does not tell of " + Name("on-first")));
  kubelet_->Set(held_);
  EXPECT_THAT(StatesUntil("success"), ElementsAre("pending", "success"));
  EXPECT_TRUE(HasPod("on-first"));
  EXPECT_FALSE(HasPod("on-second"));
}

TEST_F(GpuPodsTest, TheKubeletIsAskedAgainWithoutAnEventOfAnyPod) {
  DeletePod("on-second");
  options_.kubelet_restart = test_support::kPatience;
  kubelet_.reset();
  Manager manager(options_, client_);
  Want("second");
  ASSERT_TRUE(WaitForProgress(kUnknown));
  StartKubelet();
  EXPECT_THAT(StatesUntil("success"), ElementsAre("pending", "success"));
  EXPECT_TRUE(HasPod("on-first"));
}

TEST_F(GpuPodsTest, AllCountWhereThereIsNoKubeletToAsk) {
  options_.kubelet_restart = std::chrono::seconds(0);
  kubelet_.reset();
  Manager manager(options_, client_);
  Want("second");
  ASSERT_TRUE(WaitForProgress("waitingFor"));
  EXPECT_THAT(Progress().waiting_for,
              ::testing::UnorderedElementsAre(Name("on-first"), Name("on-second")));
}

// That nobody has told is no person's to decide: it is tried again.
TEST_F(GpuPodsTest, ADeadlineAtWhichNothingIsKnownIsNotTheEnd) {
  options_.pods_deadline = std::chrono::milliseconds(300);
  options_.first_retry = std::chrono::seconds(1);
  options_.kubelet_restart = test_support::kPatience;
  DeletePod("on-second");
  kubelet_.reset();
  Manager manager(options_, client_);
  Want("second");
  ASSERT_TRUE(WaitForProgress("it is not known which pods use GPUs whose geometry is to change"));
  StartKubelet();
  EXPECT_THAT(StatesUntil("success"), Contains("success"));
  EXPECT_TRUE(HasPod("on-first"));
}

TEST_F(GpuPodsTest, ThatMayNotBeEvictedAreWaitedForAndNamed) {
  options_.pods = PodPolicy::kDrain;
  options_.pods_deadline = std::chrono::milliseconds(300);
  Manager manager(options_, client_);
  Want("second");
  EXPECT_THAT(StatesUntil("failed"), ElementsAre("pending", "failed"));
  EXPECT_TRUE(HasPod("on-second"));
  EXPECT_THAT(Progress().message, HasSubstr("DRAIN_USE_FORCE"));
}

// Sent away in vain it would be: the GPU stays in use.
TEST_F(GpuPodsTest, NoneIsEvictedWhileAnotherOneMayNotBe) {
  options_.pods = PodPolicy::kDrain;
  options_.pods_deadline = std::chrono::milliseconds(300);
  MakeGpuPod("made-again");
  const auto owned =
      client_->Patch(kube::kPods, {options_.namespace_name, "made-again"}, kube::PatchType::kMerge,
                     {{"metadata",
                       {{"ownerReferences", Json::array({{{"apiVersion", "apps/v1"},
                                                          {"kind", "ReplicaSet"},
                                                          {"name", "set"},
                                                          {"uid", "1"},
                                                          {"controller", true}}})}}}});
  ASSERT_TRUE(owned) << owned.error().message;
  const auto devices = MigUuids();
  kubelet_->Set({{options_.namespace_name, "on-second", {{"nvidia.com/gpu", {devices[1]}}}},
                 {options_.namespace_name, "made-again", {{"nvidia.com/gpu", {devices[1]}}}}});
  Manager manager(options_, client_);
  Want("second");
  EXPECT_THAT(StatesUntil("failed"), ElementsAre("pending", "failed"));
  EXPECT_TRUE(HasPod("on-second"));
  EXPECT_TRUE(HasPod("made-again"));
}

TEST_F(GpuPodsTest, WithoutAPolicyAreLeftAlone) {  // as upstream
  options_.pods = PodPolicy::kIgnore;
  Manager manager(options_, client_);
  Want("second");
  EXPECT_THAT(StatesUntil("success"), ElementsAre("pending", "success"));
  EXPECT_TRUE(HasPod("on-second"));
}

TEST_F(GpuPodsTest, AnotherLabelEndsTheWait) {
  Label(kPlugin, "true");
  Manager manager(options_, client_);
  Want("second");
  ASSERT_TRUE(WaitForProgress("waitingFor"));
  Want("before");
  EXPECT_THAT(StatesUntil("success"), ElementsAre("pending", "success"));
  EXPECT_THAT(Geometry(), ElementsAre(kSeven, kSeven));
  EXPECT_EQ(LabelOf(Node(), kPlugin), "true");
  EXPECT_TRUE(HasPod("on-second"));
}

TEST_F(GpuPodsTest, AManagerThatIsReplacedGoesOnWaiting) {
  Label(kPlugin, "true");
  {
    Manager manager(options_, client_);
    Want("second");
    ASSERT_TRUE(WaitForProgress("waitingFor"));
    EXPECT_EQ(LabelOf(Node(), kPlugin), "paused-for-mig-change");
    ASSERT_TRUE(manager.Stop());
  }
  EXPECT_EQ(LabelOf(Node(), kPlugin), "true") << "a node is not left with its operands paused";
  EXPECT_EQ(LabelOf(Node(), api::kMigConfigState), "pending");
  Manager successor(options_, client_);
  ASSERT_TRUE(WaitForProgress("waitingFor"));
  DeletePod("on-second");
  EXPECT_THAT(StatesUntil("success"), ElementsAre("pending", "success"));
  EXPECT_THAT(Geometry(), ElementsAre(kSeven, kTwo));
}

TEST_F(DividedGpus, WhatAKilledManagerLeftIsTidiedUp) {
  Label(kPlugin, "paused-for-mig-change");
  Label(api::kMigConfigState, "pending");
  const validations::StatusFolder folder(options_.validations);
  ASSERT_TRUE(validations::AnnounceMigChange(folder, {"GPU-1"}));
  Want("all-1g.10gb");
  Manager manager(options_, client_);
  EXPECT_THAT(StatesUntil("success"), Contains("success"));
  EXPECT_EQ(LabelOf(Node(), kPlugin), "true");
  EXPECT_THAT(*validations::ReadMigChange(folder), IsEmpty());
}

}  // namespace
}  // namespace pitcrew::node::mig_manager
