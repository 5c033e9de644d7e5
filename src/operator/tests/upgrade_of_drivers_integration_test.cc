// Rolling upgrades of the drivers of NVIDIADriver objects (driver-lifecycle.md sections 2.2 and
// 2.18), on a real kube-apiserver.
#include "api/labels.h"
#include "support_upgrade_of_drivers.h"

namespace pitcrew::gpu_operator::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::IsEmpty;
using ::testing::StartsWith;

const Json kWithoutOwner = {{"metadata", {{"ownerReferences", nullptr}}}};

TEST_F(UpgradeOfDriversTest, AnImageThatIsNowhereIsToldWithTheDriversOwnField) {
  const auto node = AddNodeOf("a", "one");
  CreatePolicy("cluster-policy", kDelegated);
  CreateDriverFor("one", "{}");
  RunningOperator running(name_space_);
  ASSERT_TRUE(Settles());
  const std::string former = UidOfDriverPod(node);
  bad_image_ = ":999.";
  const auto tells = [&](const Json& spec, const std::string& block) {
    Merge(desired::kNvidiaDrivers, Cluster("one"), {{"spec", spec}});
    EXPECT_TRUE(Eventually([&] {
      Play();
      return UpgradeReady("one").starts_with("False UpgradeStopped: " + block + ": node " + node +
                                             " cannot get the image r/x:999.");
    })) << block
        << ": " << UpgradeReady("one");
    EXPECT_EQ(UidOfDriverPod(node), former);
    EXPECT_EQ(StateOf(node), "upgrade-required");
  };
  const auto image = [](const std::string& version) {
    return Json{{"repository", "r"}, {"image", "x"}, {"version", version}};
  };
  tells({{"manager", image("999.1")}}, "spec.manager");
  Json sidecar = image("999.2");
  sidecar["enabled"] = true;
  tells({{"manager", image("1")}, {"gdrcopy", sidecar}}, "spec.gdrcopy");
  sidecar["version"] = "2";
  tells({{"gdrcopy", sidecar}, {"repository", "r"}, {"image", "x"}, {"version", "999.3"}}, "spec");
}

std::vector<std::string> DoneAndThen(const std::vector<std::string>& way) {
  std::vector<std::string> states{"upgrade-done"};
  states.insert(states.end(), way.begin(), way.end());
  return states;
}

TEST_F(UpgradeOfDriversTest, EachGoesByItsOwnPolicy) {
  RecordProperty(
      "holds",
      "driver-lifecycle.md #60, #64, #66, #67; operator-behaviour.md #9, #10, #11, #36, #54");
  const auto one = AddNodeOf("a", "one");
  const auto other = AddNodeOf("b", "one");
  const auto by_hand = AddNodeOf("c", "by-hand");
  CreatePolicy("cluster-policy", kDelegated);
  CreateDriverFor("one", "{maxUnavailable: '100%'}");
  CreateDriverFor("by-hand", "{autoUpgrade: false}");
  RunningOperator running(name_space_);
  ASSERT_TRUE(Reaches(one, "upgrade-done"));
  ASSERT_TRUE(Reaches(other, "upgrade-done"));
  EXPECT_TRUE(Eventually([&] { return UpgradeEnabled(one) == "true"; }));
  EXPECT_EQ(UpgradeEnabled(by_hand), "");
  EXPECT_TRUE(
      Eventually([&] { return running.Value("gpu_operator_driver_auto_upgrade_enabled") == 1; }));

  const LabelHistory history(client_);
  const std::string former = UidOfDriverPod(by_hand);
  bad_validators_.insert(one);
  bad_validators_.insert(other);
  ChangeDriverOf("one", "590.3.4");
  ChangeDriverOf("by-hand", "590.3.4");
  EXPECT_TRUE(PolicySaysIncomplete(true));
  const auto skip = [&](const Json& value) {
    for (const std::string& node : {one, other}) {
      SetNode(node, {{"metadata", {{"labels", {{std::string(api::kUpgradeSkip), value}}}}}});
    }
  };
  skip("true");
  EXPECT_TRUE(PolicySaysIncomplete(false)) << "skipped nodes do not count";
  skip(nullptr);
  EXPECT_TRUE(PolicySaysIncomplete(true));
  bad_validators_.clear();
  ASSERT_TRUE(Eventually([&] {
    Play();
    return history.Of(one).size() + history.Of(other).size() == 2 * (kWholeWay.size() + 1);
  }));
  EXPECT_THAT(history.Of(one), ElementsAreArray(DoneAndThen(kWholeWay)));
  EXPECT_THAT(history.Of(other), ElementsAreArray(DoneAndThen(kWholeWay)));
  EXPECT_EQ(history.MostUnderWay(), 1) << "maxParallelUpgrades is 1 by default";
  EXPECT_THAT(history.Of(by_hand), IsEmpty());
  EXPECT_EQ(UidOfDriverPod(by_hand), former);
  EXPECT_TRUE(ReachesReady("cluster-policy"));
  const auto set_state = [&](const Json& value) {
    SetNode(other, {{"metadata", {{"labels", {{std::string(api::kUpgradeState), value}}}}}});
  };
  set_state("of-another-time");
  EXPECT_TRUE(PolicySaysIncomplete(true));
  set_state(nullptr);
  EXPECT_TRUE(ReachesReady("cluster-policy"));

  // Switched off, its nodes are left as they would be without upgrades; those of others stay.
  Merge(desired::kNvidiaDrivers, Cluster("one"),
        {{"spec", {{"upgradePolicy", {{"autoUpgrade", false}}}}}});
  EXPECT_TRUE(Eventually([&] { return StateOf(one) == "(none)" && UpgradeEnabled(one) == ""; }));
  EXPECT_TRUE(
      Eventually([&] { return running.Value("gpu_operator_driver_auto_upgrade_enabled") == 0; }));
}

TEST_F(UpgradeOfDriversTest, OneThatIsStoppedStopsNoOther) {
  const auto stopped = AddNodeOf("a", "stopped");
  const auto good = AddNodeOf("b", "good");
  CreatePolicy("cluster-policy", kDelegated);
  CreateDriverFor("stopped", "{drain: {enable: true, podSelector: 'a in'}}");
  CreateDriverFor("good", "{}");
  RunningOperator running(name_space_);
  ASSERT_TRUE(Settles());
  ChangeDriverOf("stopped", "590.3.4");
  ChangeDriverOf("good", "590.3.4");
  ASSERT_TRUE(Eventually([&] {
    Play();
    return !UpgradeReady("stopped").empty();
  }));
  EXPECT_THAT(UpgradeReady("stopped"),
              StartsWith("False UpgradeStopped: spec.upgradePolicy.drain.podSelector: "));
  const LabelHistory history(client_);
  ASSERT_TRUE(Eventually([&] {
    Play();
    return history.Of(good).back() == "upgrade-done";
  }));
  EXPECT_EQ(UpgradeReady("good"), "");
  EXPECT_EQ(StateOf(stopped), "upgrade-required");
  Merge(desired::kNvidiaDrivers, Cluster("stopped"),
        {{"spec", {{"upgradePolicy", {{"drain", {{"podSelector", "a in (b)"}}}}}}}});
  EXPECT_TRUE(Settles());
  EXPECT_TRUE(Eventually([&] { return UpgradeReady("stopped").empty(); }));
}

TEST_F(UpgradeOfDriversTest, AnAnnotationPausesOneAlone) {
  const auto paused = AddNodeOf("a", "paused");
  const auto other = AddNodeOf("b", "other");
  CreatePolicy("cluster-policy", kDelegated);
  CreateDriverFor("paused", "{}");
  CreateDriverFor("other", "{}");
  RunningOperator running(name_space_);
  ASSERT_TRUE(Settles());
  Annotate("paused", api::kUpgradePausedAnnotation, "true");
  const LabelHistory history(client_);
  ChangeDriverOf("paused", "590.3.4");
  ChangeDriverOf("other", "590.3.4");
  ASSERT_TRUE(Eventually([&] {
    Play();
    return history.Of(other).size() == kWholeWay.size() + 1;
  }));
  EXPECT_THAT(history.Of(paused), ElementsAre("upgrade-done", "upgrade-required"));

  // One that cannot be used: no pod is touched, and the driver itself is rolled out all the same.
  Annotate("paused", api::kUpgradePausedAnnotation, "perhaps");
  EXPECT_TRUE(Eventually([&] {
    return UpgradeReady("paused").find(
               "metadata.annotations[nvidia.com/gpu-driver-upgrade.paused]"
               ": is \"perhaps\"") != std::string::npos;
  })) << UpgradeReady("paused");
  ChangeDriverOf("paused", "600.1.1");
  EXPECT_EQ(StateOf(paused), "upgrade-required");
  Annotate("paused", api::kUpgradePausedAnnotation, nullptr);
  EXPECT_TRUE(Settles());
}

// driver-lifecycle.md section 2.18, and better: what would only be started again goes on.
TEST_F(UpgradeOfDriversTest, TheSameDriverChangesHandsAndBackWithoutARestart) {
  const auto node = AddNode("a");
  const auto cordoned = AddNode("b");
  SetNode(cordoned, {{"spec", {{"unschedulable", true}}}});
  CreateGpuPod("trainer", node);
  CreatePolicy("cluster-policy",
               "driver: {repository: registry.test, image: driver, version: 580.65.06, "
               "upgradePolicy: {autoUpgrade: true, maxUnavailable: '100%'}}");
  CreateDriver("all", "{default: true}");
  RunningOperator running(name_space_);
  ASSERT_TRUE(Settles());
  ASSERT_EQ(OwnerOfDriverPod(node), "nvidia-driver-daemonset");
  const std::string former = UidOfDriverPod(node);
  const LabelHistory history(client_);

  MergeSpec("cluster-policy", kDelegated);
  AwaitTemplateWith("580.65.06", "all");
  ASSERT_TRUE(GoesTo(node, "nvidia-gpu-driver-"));
  ASSERT_TRUE(GoesTo(cordoned, "nvidia-gpu-driver-"));
  ASSERT_TRUE(Settles());
  EXPECT_EQ(UidOfDriverPod(node), former);
  EXPECT_TRUE(Eventually([&] {
    for (const auto& told : EventsOf(node)) {
      if (told.find("The driver goes on under DaemonSet nvidia-gpu-driver-") != std::string::npos)
        return true;
    }
    return false;
  }));

  MergeSpec("cluster-policy", "{driver: {useNvidiaDriverCRD: false}}");
  AwaitTemplateWith("580.65.06");
  ASSERT_TRUE(GoesTo(node, "nvidia-driver-daemonset"));
  ASSERT_TRUE(GoesTo(cordoned, "nvidia-driver-daemonset"));
  ASSERT_TRUE(Settles());
  EXPECT_EQ(UidOfDriverPod(node), former);
  EXPECT_TRUE(Exists(kube::kPods, Own("trainer")));
  EXPECT_THAT(history.Of(node), ElementsAre("upgrade-done"));
  EXPECT_THAT(history.Of(cordoned), ElementsAre("upgrade-done"));
  EXPECT_TRUE(IsCordoned(cordoned));

  // It is under the upgrade as before.
  ChangeDriver("590.3.4");
  ASSERT_TRUE(Settles());
  EXPECT_THAT(history.Of(node), ElementsAreArray(DoneAndThen(kWholeWay)));
  EXPECT_FALSE(Exists(kube::kPods, Own("trainer")));
}

// What was seen of a former driver's versions once: its pods seemed outdated while the garbage
// collector freed them and the versions, and pods that used the GPUs were sent away for it.
TEST_F(UpgradeOfDriversTest, ADaemonSetThatGoesOutdatesNoPod) {
  const auto node = AddNode("a");
  CreatePolicy("cluster-policy",
               "driver: {repository: registry.test, image: driver, version: 580.65.06, "
               "upgradePolicy: {autoUpgrade: true, maxUnavailable: '100%'}}");
  RunningOperator running(name_space_);
  ASSERT_TRUE(Settles());
  ChangeDriver("590.3.4");
  ASSERT_TRUE(Settles());
  CreateGpuPod("trainer", node);
  const std::string former = UidOfDriverPod(node);
  const LabelHistory history(client_);

  frees_only_revisions_ = true;
  CreateDriver("all",
               "{default: true, repository: registry.test, image: driver, version: 590.3.4}");
  MergeSpec("cluster-policy", kDelegated);
  ASSERT_TRUE(Eventually([&] {
    Play();
    return Exists(kube::kPods, Own("waiting-" + node));
  }));
  // The pod has its owner all the time, which has only its first version left, and then none.
  EXPECT_TRUE(OwnerOfDriverPod(node).starts_with("nvidia-driver-daemonset"));
  EXPECT_TRUE(IsLookedAtAgain(running, node));
  frees_only_revisions_ = false;
  ASSERT_TRUE(GoesTo(node, "nvidia-gpu-driver-"));
  ASSERT_TRUE(Settles());
  EXPECT_EQ(UidOfDriverPod(node), former);
  EXPECT_THAT(history.Of(node), ElementsAre("upgrade-done"));
  EXPECT_TRUE(Exists(kube::kPods, Own("trainer")));
}

// Parameters of modules that wait to be rolled out are not lost with the DaemonSet that knew them.
TEST_F(UpgradeOfDriversTest, FormerParametersAreNoSameDriver) {
  const auto node = AddNode("a");
  const auto set_parameters = [&](const std::string& text) {
    return Json{{"metadata", {{"name", "parameters"}, {"namespace", name_space_}}},
                {"data", {{"nvidia.conf", text}}}};
  };
  Create(kube::kConfigMaps, set_parameters("NVreg_A=1"));
  CreatePolicy("cluster-policy",
               "driver: {repository: registry.test, image: driver, version: 580.65.06, "
               "kernelModuleConfig: {name: parameters}, upgradePolicy: {autoUpgrade: true}}");
  CreateDriver("all",
               "{default: true, kernelModuleConfig: {name: parameters}, upgradePolicy: "
               "{maxUnavailable: '100%'}}");
  RunningOperator running(name_space_);
  ASSERT_TRUE(Settles());
  const std::string former = UidOfDriverPod(node);
  const LabelHistory history(client_);
  Merge(desired::kClusterPolicies, Cluster("cluster-policy"),
        {{"metadata", {{"annotations", {{std::string(api::kUpgradePausedAnnotation), "true"}}}}}});
  Annotate("all", api::kUpgradePausedAnnotation, "true");
  Merge(kube::kConfigMaps, Own("parameters"), set_parameters("NVreg_A=2"));
  ASSERT_TRUE(Reaches(node, "upgrade-required"));
  MergeSpec("cluster-policy", kDelegated);
  ASSERT_TRUE(Eventually([&] {
    Play();
    return Exists(kube::kPods, Own("waiting-" + node));
  }));
  EXPECT_TRUE(IsLookedAtAgain(running, node));
  EXPECT_EQ(UidOfDriverPod(node), former);
  EXPECT_EQ(OwnerOfDriverPod(node), "") << "it is not handed over";
  Annotate("all", api::kUpgradePausedAnnotation, nullptr);
  ASSERT_TRUE(GoesTo(node, "nvidia-gpu-driver-"));
  ASSERT_TRUE(Settles());
  EXPECT_NE(UidOfDriverPod(node), former);
  EXPECT_THAT(history.Of(node), ElementsAreArray(DoneAndThen(kWholeWay)));
}

TEST_F(UpgradeOfDriversTest, AnotherDriverIsRolledOutOnTheWay) {
  RecordProperty("holds", "driver-lifecycle.md #65; operator-behaviour.md #37");
  const auto node = AddNode("a");
  const auto cordoned = AddNode("b");
  CreateGpuPod("trainer", node);
  CreatePolicy("cluster-policy",
               "driver: {repository: registry.test, image: driver, version: 580.65.06, "
               "upgradePolicy: {autoUpgrade: true}}");
  CreateDriver("all",
               "{default: true, repository: registry.test, image: driver, version: 590.3.4, "
               "upgradePolicy: {maxUnavailable: '100%'}}");
  RunningOperator running(name_space_);
  ASSERT_TRUE(Settles());
  SetNode(cordoned, {{"spec", {{"unschedulable", true}}}});
  const LabelHistory history(client_);
  MergeSpec("cluster-policy", kDelegated);
  AwaitTemplateWith("590.3.4", "all");
  ASSERT_TRUE(GoesTo(node, "nvidia-gpu-driver-"));
  ASSERT_TRUE(GoesTo(cordoned, "nvidia-gpu-driver-"));
  ASSERT_TRUE(Settles());
  EXPECT_THAT(history.Of(node), ElementsAreArray(DoneAndThen(kWholeWay)));
  EXPECT_FALSE(Exists(kube::kPods, Own("trainer")));
  EXPECT_FALSE(IsCordoned(node));
  EXPECT_TRUE(IsCordoned(cordoned)) << "a person has cordoned it";
  EXPECT_THAT(Traces(cordoned), IsEmpty());
}

// Without rolling upgrades a driver that stays the same changes hands all the same; another one
// waits until somebody deletes its pod.
TEST_F(UpgradeOfDriversTest, WithoutUpgradesOnlyTheSameDriverChangesHands) {
  const auto same = AddNodeOf("a", "same");
  const auto other = AddNodeOf("b", "other");
  CreatePolicy("cluster-policy",
               "driver: {repository: registry.test, image: driver, version: 580.65.06}");
  CreateDriverFor("same", "{autoUpgrade: false}");
  CreateDriver("other",
               "{nodeSelector: {pool: other}, repository: registry.test, image: driver, version: "
               "590.3.4, upgradePolicy: {autoUpgrade: false}}");
  RunningOperator running(name_space_);
  ASSERT_TRUE(Eventually([&] {
    Play();
    return !UidOfDriverPod(same).empty() && !UidOfDriverPod(other).empty();
  }));
  const std::string former = UidOfDriverPod(same);
  const std::string orphan = UidOfDriverPod(other);
  MergeSpec("cluster-policy", kDelegated);
  ASSERT_TRUE(Eventually([&] {
    Play();
    return OwnerOfDriverPod(same).starts_with("nvidia-gpu-driver-") &&
           Exists(kube::kPods, Own("waiting-" + other));
  }));
  EXPECT_EQ(UidOfDriverPod(same), former);
  EXPECT_EQ(UidOfDriverPod(other), orphan);
  EXPECT_EQ(OwnerOfDriverPod(other), "");
  EXPECT_EQ(StateOf(other), "(none)");
}

// Its DaemonSet is named by its UID, so that one made anew has another: where the former one stays
// (kept with `--cascade=orphan`, or nobody collects garbage), its pods would hold the others'
// places for ever.
TEST_F(UpgradeOfDriversTest, OneThatIsMadeAnewGoesOnWithTheDriversOfTheFormer) {
  const auto node = AddNodeOf("a", "one");
  const auto other = AddNodeOf("b", "other");
  CreateGpuPod("trainer", node);
  CreatePolicy("cluster-policy", kDelegated);
  CreateDriverFor("one", "{autoUpgrade: true}");
  CreateDriverFor("other", "{autoUpgrade: true}");
  std::optional<RunningOperator> running(std::in_place, name_space_);
  ASSERT_TRUE(Settles());
  const std::string pod = UidOfDriverPod(node);
  const std::string pod_of_other = UidOfDriverPod(other);
  const LabelHistory history(client_);
  for (const bool orphaned : {true, false}) {
    const std::string former = OwnerOfDriverPod(node);
    running.reset();
    ASSERT_TRUE(client_->Delete(desired::kNvidiaDrivers, Cluster("one")));
    if (orphaned) Merge(kube::kDaemonSets, Own(former), kWithoutOwner);
    CreateDriverFor("one", "{autoUpgrade: true}");
    running.emplace(name_space_);
    ASSERT_TRUE(Eventually([&] {
      Play();
      const std::string owner = OwnerOfDriverPod(node);
      return owner != former && owner.starts_with("nvidia-gpu-driver-");
    })) << DriverOf(node);
    ASSERT_TRUE(Settles());
    EXPECT_FALSE(Exists(kube::kDaemonSets, Own(former)));
    const auto daemonset = DaemonSetFor(node);
    ASSERT_TRUE(daemonset);
    EXPECT_EQ((*daemonset)["metadata"]["ownerReferences"][0]["uid"],
              NvidiaDriver("one")["metadata"]["uid"]);
    EXPECT_EQ(UidOfDriverPod(node), pod) << "the same driver goes on";
  }
  EXPECT_EQ(UidOfDriverPod(other), pod_of_other);
  EXPECT_THAT(history.Of(node), ElementsAre("upgrade-done"));
  EXPECT_TRUE(Exists(kube::kPods, Own("trainer")));
}

// A driver that is deleted leaves no node cordoned.
TEST_F(UpgradeOfDriversTest, AnUpgradeOfADriverThatGoesIsTakenBack) {
  const auto node = AddNodeOf("a", "one");
  CreateGpuPod("trainer", node);
  Allow("trainer", 0);
  CreatePolicy("cluster-policy", kDelegated);
  CreateDriverFor("one", "{podDeletion: {timeoutSeconds: 0}}");
  RunningOperator running(name_space_);
  ASSERT_TRUE(Settles());
  ChangeDriverOf("one", "590.3.4");
  ASSERT_TRUE(Reaches(node, "pod-deletion-required"));
  EXPECT_TRUE(IsCordoned(node));
  ASSERT_TRUE(client_->Delete(desired::kNvidiaDrivers, Cluster("one")));
  EXPECT_TRUE(Eventually([&] { return StateOf(node) == "(none)" && !IsCordoned(node); }));
  EXPECT_THAT(Traces(node), IsEmpty());
  EXPECT_TRUE(Exists(kube::kPods, Own("trainer")));
  EXPECT_EQ(UpgradeEnabled(node), "");
}

// It gives its place to the next, and counts no more.
TEST_F(UpgradeOfDriversTest, ANodeThatIsDeletedInTheMiddleOfItsUpgradeHoldsNothingUp) {
  RecordProperty("holds", "operator-behaviour.md #13");
  const auto first = AddNodeOf("a", "one");
  CreateGpuPod("trainer", first);
  Allow("trainer", 0);
  CreatePolicy("cluster-policy", kDelegated);
  CreateDriverFor("one", "{maxUnavailable: '100%', podDeletion: {timeoutSeconds: 0}}");
  RunningOperator running(name_space_);
  ASSERT_TRUE(Settles());
  ChangeDriverOf("one", "590.3.4");
  ASSERT_TRUE(Reaches(first, "pod-deletion-required"));
  const auto second = AddNodeOf("b", "one");
  ASSERT_TRUE(Reaches(second, "upgrade-done"));
  ChangeDriverOf("one", "595.1.1");
  ASSERT_TRUE(Reaches(second, "upgrade-required"));
  EXPECT_TRUE(Eventually([&] {
    return running.Value("gpu_operator_nodes_upgrades_in_progress") == 1 &&
           running.Value("gpu_operator_nodes_upgrades_pending") == 1;
  }));
  EXPECT_TRUE(PolicySaysIncomplete(true));
  nodes_.erase(nodes_.begin());
  ASSERT_TRUE(client_->Delete(kube::kNodes, Cluster(first)));
  ASSERT_TRUE(Settles());
  EXPECT_TRUE(PolicySaysIncomplete(false));
  EXPECT_TRUE(Eventually([&] {
    return running.Value("gpu_operator_nodes_upgrades_in_progress") == 0 &&
           running.Value("gpu_operator_nodes_upgrades_done") == 1;
  }));
}

}  // namespace
}  // namespace pitcrew::gpu_operator::testing
