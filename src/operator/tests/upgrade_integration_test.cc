// Rolling upgrades of the driver (driver-lifecycle.md section 2), on a real kube-apiserver.
#include "api/labels.h"
#include "support_upgrade.h"

namespace pitcrew::gpu_operator::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Without what came before the change of the driver.
std::vector<std::string> After(std::vector<std::string> history, std::size_t count) {
  history.erase(history.begin(), history.begin() + static_cast<std::ptrdiff_t>(count));
  return history;
}

TEST_F(UpgradeTest, ANodeGoesThroughUpstreamsStatesInTheirOrder) {
  RecordProperty("holds", "driver-lifecycle.md #84, #87");
  const auto node = AddNode("a");
  CreateGpuPod("trainer", node);
  CreatePod("web", node, {{"labels", {{"app", "web"}}}}, Json::object());
  const LabelHistory history(client_);
  CreateUpgradePolicy();
  RunningOperator running(name_space_);
  ASSERT_TRUE(Reaches(node, "upgrade-done"));
  EXPECT_EQ(history.Of(node), std::vector<std::string>{"upgrade-done"});
  EXPECT_TRUE(Exists(kube::kPods, Own("trainer"))) << "nothing has changed yet";

  const auto former = *client_->Get(kube::kPods, Own("driver-" + node));
  ChangeDriver("590.3.4");
  ASSERT_TRUE(Settles());
  EXPECT_THAT(After(history.Of(node), 1), ElementsAreArray(kWholeWay));
  const auto newer = *client_->Get(kube::kPods, Own("driver-" + node));
  EXPECT_NE(former["metadata"]["uid"], newer["metadata"]["uid"]);
  EXPECT_FALSE(Exists(kube::kPods, Own("trainer")));
  EXPECT_TRUE(Exists(kube::kPods, Own("web"))) << "it uses no GPU";
  EXPECT_FALSE(IsCordoned(node));
  EXPECT_THAT(Traces(node), IsEmpty());
  EXPECT_TRUE(Eventually([&] {
    return running.Value("gpu_operator_nodes_upgrades_done") == 1 &&
           running.Value("gpu_operator_nodes_upgrades_in_progress") == 0;
  }));
  EXPECT_TRUE(Eventually([&] {
    const auto told = EventsOf(node);
    const auto has = [&](const std::string& text) {
      return std::ranges::find(told, "Normal GPUDriverUpgrade " + text) != told.end();
    };
    return has("Successfully updated node state label to uncordon-required") &&
           has("Deleted workload pods on the node for the driver upgrade");
  }));
}

TEST_F(UpgradeTest, NoMoreNodesAtATimeThanThePolicySays) {
  RecordProperty("holds", "driver-lifecycle.md #72");
  for (const char* name : {"a", "b", "c", "d", "e"}) AddNode(name);
  CreateUpgradePolicy("{maxParallelUpgrades: 2, maxUnavailable: '100%'}");
  RunningOperator running(name_space_);
  ASSERT_TRUE(Settles());
  const LabelHistory history(client_);
  ChangeDriver("590.3.4");
  ASSERT_TRUE(Settles());
  for (const auto& node : nodes_)
    EXPECT_THAT(After(history.Of(node), 1), ElementsAreArray(kWholeWay));
  EXPECT_EQ(history.MostUnderWay(), 2);
}

TEST_F(UpgradeTest, ATemplateThatChangesNothingOfTheDriverOnlyRestartsIt) {
  RecordProperty("holds", "driver-lifecycle.md #89");
  const auto node = AddNode("a");
  CreateGpuPod("trainer", node);
  CreateUpgradePolicy();
  RunningOperator running(name_space_);
  ASSERT_TRUE(Settles());
  const LabelHistory history(client_);
  ChangeTemplateOnly();
  ASSERT_TRUE(Eventually([&] {
    Play();
    return history.Of(node).size() > 1;
  }));
  ASSERT_TRUE(Settles());
  EXPECT_THAT(After(history.Of(node), 1),
              ElementsAreArray({"upgrade-required", "pod-restart-required", "validation-required",
                                "uncordon-required", "upgrade-done"}));
  EXPECT_TRUE(Exists(kube::kPods, Own("trainer"))) << "it was not in the way";
  EXPECT_FALSE(IsCordoned(node));
}

TEST_F(UpgradeTest, ABudgetHoldsANodeUpAndThenLetsItGoOn) {
  const auto node = AddNode("a");
  CreateGpuPod("trainer", node);
  Allow("trainer", 0);
  CreateUpgradePolicy("{podDeletion: {timeoutSeconds: 0}}");
  RunningOperator running(name_space_);
  ASSERT_TRUE(Settles());
  const LabelHistory history(client_);
  ChangeDriver("590.3.4");
  ASSERT_TRUE(Reaches(node, "pod-deletion-required"));
  EXPECT_TRUE(Eventually([&] {
    for (const auto& told : EventsOf(node)) {
      if (told.find("trainer is held back") != std::string::npos) return true;
    }
    return false;
  }));
  EXPECT_TRUE(Exists(kube::kPods, Own("trainer")));
  Allow("trainer", 1);
  ASSERT_TRUE(Settles());
  EXPECT_THAT(After(history.Of(node), 1), ElementsAreArray(kWholeWay));
}

TEST_F(UpgradeTest, PodsThatNobodyWouldMakeAgainStayAndTheOtherNodesGoOn) {
  RecordProperty("holds", "driver-lifecycle.md #83");
  const auto bad = AddNode("a");
  const auto good = AddNode("b");
  CreateGpuPod("notebook", bad, false);
  CreateUpgradePolicy("{maxUnavailable: '100%'}");
  RunningOperator running(name_space_);
  ASSERT_TRUE(Settles());
  const LabelHistory history(client_);
  ChangeDriver("590.3.4");
  ASSERT_TRUE(Reaches(bad, "upgrade-failed"));
  // It takes no place: with maxParallelUpgrades 1 the other one goes on.
  ASSERT_TRUE(Eventually([&] {
    Play();
    return history.Of(good).size() > 1 && history.Of(good).back() == "upgrade-done";
  }));
  EXPECT_TRUE(Exists(kube::kPods, Own("notebook")));
  EXPECT_THAT(After(history.Of(bad), 1),
              ElementsAreArray({"upgrade-required", "cordon-required", "wait-for-jobs-required",
                                "pod-deletion-required", "upgrade-failed"}));
  EXPECT_TRUE(IsCordoned(bad));
  EXPECT_TRUE(Eventually([&] { return running.Value("gpu_operator_nodes_upgrades_failed") == 1; }));

  // Another version of the driver is another try, for which a person has made room.
  ASSERT_TRUE(client_->Delete(kube::kPods, Own("notebook")));
  ChangeDriver("600.1.1");
  ASSERT_TRUE(Settles());
  EXPECT_FALSE(IsCordoned(bad)) << "the cordon was the upgrade's";
  EXPECT_THAT(Traces(bad), IsEmpty());
}

TEST_F(UpgradeTest, ADrainComesWherePodsDoNotGoAndLeavesSomeAlone) {
  RecordProperty("holds", "driver-lifecycle.md #83, #85");
  const auto node = AddNode("a");
  CreateGpuPod("notebook", node, false);
  CreatePod("kept", node, {{"labels", {{"nvidia.com/gpu-driver-upgrade-drain.skip", "true"}}}},
            Json::object());
  CreateUpgradePolicy("{drain: {enable: true, force: true}}");
  RunningOperator running(name_space_);
  ASSERT_TRUE(Settles());
  const LabelHistory history(client_);
  ChangeDriver("590.3.4");
  ASSERT_TRUE(Settles());
  auto way = kWholeWay;
  way.insert(way.begin() + 4, "drain-required");
  EXPECT_THAT(After(history.Of(node), 1), ElementsAreArray(way));
  EXPECT_FALSE(Exists(kube::kPods, Own("notebook")));
  EXPECT_TRUE(Exists(kube::kPods, Own("kept")));
  EXPECT_FALSE(IsCordoned(node));
}

TEST_F(UpgradeTest, JobsAreWaitedForAndTheMomentTheyEndTheNodeGoesOn) {
  const auto node = AddNode("a");
  CreatePod("job", node, {{"labels", {{"kind", "job"}}}}, Json::object());
  CreateUpgradePolicy("{waitForCompletion: {podSelector: kind=job, timeoutSeconds: 3600}}");
  RunningOperator running(name_space_);
  ASSERT_TRUE(Settles());
  const LabelHistory history(client_);
  ChangeDriver("590.3.4");
  ASSERT_TRUE(Reaches(node, "wait-for-jobs-required"));
  ASSERT_TRUE(Eventually([&] { return Traces(node).size() == 2; }));
  EXPECT_THAT(Traces(node), Contains(HasSubstr("wait-for-pod-completion-start-time")));
  Merge(kube::kPods, Own("job"), {{"status", {{"phase", "Succeeded"}}}}, "status");
  ASSERT_TRUE(Settles());
  EXPECT_THAT(After(history.Of(node), 1), ElementsAreArray(kWholeWay));
  EXPECT_THAT(Traces(node), IsEmpty());
}

TEST_F(UpgradeTest, ADriverThatDoesNotStartFailsItsNode) {
  RecordProperty("holds", "driver-lifecycle.md #79");
  const auto node = AddNode("a");
  CreateUpgradePolicy();
  RunningOperator running(name_space_);
  ASSERT_TRUE(Settles());
  bad_drivers_.insert(node);
  ChangeDriver("590.3.4");
  ASSERT_TRUE(Reaches(node, "upgrade-failed"));
  EXPECT_TRUE(IsCordoned(node));
  // The driver works, but the validator does not say so.
  bad_validators_.insert(node);
  Play();
  bad_drivers_.clear();
  Play();
  bad_validators_.clear();
  ASSERT_TRUE(Settles());
  EXPECT_FALSE(IsCordoned(node));
}

TEST_F(UpgradeTest, ANodeWhoseDriverCrashesStopsNoOther) {
  const auto bad = AddNode("a");
  const auto good = AddNode("b");
  // It comes first: with one at a time the other one waits for its place.
  SetNode(good, {{"metadata", {{"labels", {{std::string(api::kUpgradeSkip), "true"}}}}}});
  CreateUpgradePolicy("{maxParallelUpgrades: 1, maxUnavailable: '100%'}");
  RunningOperator running(name_space_);
  ASSERT_TRUE(Settles());
  const LabelHistory history(client_);
  bad_drivers_.insert(bad);
  ChangeDriver("590.3.4");
  ASSERT_TRUE(Reaches(bad, "upgrade-failed"));
  ASSERT_TRUE(Reaches(good, "upgrade-required"));
  SetNode(good, {{"metadata", {{"labels", {{std::string(api::kUpgradeSkip), nullptr}}}}}});
  ASSERT_TRUE(Reaches(good, "upgrade-done"));
  EXPECT_THAT(After(history.Of(good), 1), ElementsAreArray(kWholeWay));
  EXPECT_EQ(StateOf(bad), "upgrade-failed");
  EXPECT_TRUE(IsCordoned(bad)) << "nothing may be put on it";
  EXPECT_FALSE(IsCordoned(good));
  // What status and doctor tell of it they read from its label, and from this.
  EXPECT_THAT(Traces(bad), Contains(HasSubstr("failed-revision")));
  EXPECT_TRUE(Eventually([&] { return running.Value("gpu_operator_nodes_upgrades_failed") == 1; }));
  EXPECT_EQ(Condition("cluster-policy", "DriverUpgradeReady"), "") << "one is no reason to stop";
}

TEST_F(UpgradeTest, AnImageThatCannotBeHadCostsNoOtherNodeItsDriver) {
  const auto first = AddNode("a");
  const auto other = AddNode("b");
  CreateGpuPod("trainer", other);
  // The first one comes first: the other waits until it is under way.
  SetNode(other, {{"metadata", {{"labels", {{std::string(api::kUpgradeSkip), "true"}}}}}});
  CreateUpgradePolicy("{maxParallelUpgrades: 2, maxUnavailable: '100%', imageCheck: false}");
  RunningOperator running(name_space_);
  ASSERT_TRUE(Settles());
  const LabelHistory history(client_);
  no_image_.insert(first);
  ChangeDriver("999.9.9");
  ASSERT_TRUE(Reaches(first, "pod-restart-required"));
  ASSERT_TRUE(Reaches(other, "upgrade-required"));
  const auto has_no_image = [&] {
    Play();
    const auto pod = client_->Get(kube::kPods, Own("driver-" + first));
    return pod && pod->dump().find("ImagePullBackOff") != std::string::npos;
  };
  ASSERT_TRUE(Eventually(has_no_image)) << DriverOf(first);
  SetNode(other, {{"metadata", {{"labels", {{std::string(api::kUpgradeSkip), nullptr}}}}}});
  const std::string told = "False UpgradeStopped: spec.driver: node " + first +
                           " cannot get the image nvcr.io/nvidia/driver:999.9.9";
  EXPECT_TRUE(Eventually([&] {
    return Condition("cluster-policy", "DriverUpgradeReady").starts_with(told);
  })) << Condition("cluster-policy", "DriverUpgradeReady");
  EXPECT_EQ(StateOf(other), "upgrade-required") << "though there is a place";
  EXPECT_FALSE(IsCordoned(other));
  EXPECT_TRUE(Exists(kube::kPods, Own("trainer")));

  no_image_.clear();
  ChangeDriver("590.3.4");
  ASSERT_TRUE(Settles());
  EXPECT_THAT(After(history.Of(other), 1), ElementsAreArray(kWholeWay));
  EXPECT_FALSE(IsCordoned(first));
  EXPECT_TRUE(
      Eventually([&] { return Condition("cluster-policy", "DriverUpgradeReady").empty(); }));
}

TEST_F(UpgradeTest, ACordonOfAPersonStays) {
  RecordProperty("holds", "driver-lifecycle.md #70, #80");
  const auto before = AddNode("a");
  const auto meanwhile = AddNode("b");
  CreateUpgradePolicy("{maxUnavailable: 0}");
  RunningOperator running(name_space_);
  ASSERT_TRUE(Settles());
  SetNode(before, {{"spec", {{"unschedulable", true}}}});
  ChangeDriver("590.3.4");
  ASSERT_TRUE(Reaches(before, "upgrade-done"));
  // No node may be unavailable, but one that is already may be upgraded.
  ASSERT_TRUE(Reaches(meanwhile, "upgrade-required"));
  SetNode(meanwhile, {{"spec", {{"unschedulable", true}}}});
  ASSERT_TRUE(Settles());
  for (const auto& node : nodes_) {
    EXPECT_TRUE(IsCordoned(node)) << node;
    EXPECT_THAT(Traces(node), IsEmpty());
  }
}

TEST_F(UpgradeTest, SkippedNodesWaitAndRequestedOnesGo) {
  const auto skipped = AddNode("a");
  const auto requested = AddNode("b");
  SetNode(skipped, {{"metadata", {{"labels", {{std::string(api::kUpgradeSkip), "true"}}}}}});
  CreateUpgradePolicy("{maxUnavailable: '100%'}");
  RunningOperator running(name_space_);
  ASSERT_TRUE(Settles());
  const LabelHistory history(client_);
  SetNode(
      requested,
      {{"metadata", {{"annotations", {{std::string(api::kUpgradeRequestedAnnotation), "true"}}}}}});
  ASSERT_TRUE(Eventually([&] {
    Play();
    return history.Of(requested).size() > 1 && history.Of(requested).back() == "upgrade-done";
  }));
  EXPECT_THAT(After(history.Of(requested), 1), ElementsAreArray(kWholeWay));
  EXPECT_THAT(Traces(requested), IsEmpty());

  ChangeDriver("590.3.4");
  ASSERT_TRUE(Reaches(skipped, "upgrade-required"));
  ASSERT_TRUE(Eventually([&] {
    Play();
    return history.Of(requested).size() == 2 * kWholeWay.size() + 1;
  }));
  EXPECT_EQ(StateOf(skipped), "upgrade-required");
  SetNode(skipped, {{"metadata", {{"labels", {{std::string(api::kUpgradeSkip), nullptr}}}}}});
  EXPECT_TRUE(Settles());
}

// What has to be done next stands in the cluster.
TEST_F(UpgradeTest, AnotherOperatorGoesOnInEveryState) {
  const auto node = AddNode("a");
  CreatePod("job", node, {{"labels", {{"kind", "job"}}}}, Json::object());
  CreateGpuPod("trainer", node);
  Allow("trainer", 0);
  CreateUpgradePolicy(
      "{waitForCompletion: {podSelector: kind=job}, podDeletion: {timeoutSeconds: 0}}");
  auto running = std::make_unique<RunningOperator>(name_space_);
  ASSERT_TRUE(Settles());
  const LabelHistory history(client_);
  const auto restart = [&] {
    running.reset();
    running = std::make_unique<RunningOperator>(name_space_);
  };
  ChangeDriver("590.3.4");
  ASSERT_TRUE(Reaches(node, "wait-for-jobs-required"));
  restart();
  ASSERT_TRUE(client_->Delete(kube::kPods, Own("job")));
  ASSERT_TRUE(Reaches(node, "pod-deletion-required"));
  restart();
  no_pods_.insert(node);
  Allow("trainer", 1);
  ASSERT_TRUE(Reaches(node, "pod-restart-required"));
  restart();
  bad_validators_.insert(node);
  Play();
  no_pods_.clear();
  ASSERT_TRUE(Reaches(node, "validation-required"));
  restart();
  bad_validators_.clear();
  ASSERT_TRUE(Settles());
  EXPECT_THAT(After(history.Of(node), 1), ElementsAreArray(kWholeWay));
  EXPECT_FALSE(IsCordoned(node));
  EXPECT_THAT(Traces(node), IsEmpty());

  // States that a node leaves at once: the operator was gone between two writes.
  for (const char* state :
       {"upgrade-required", "cordon-required", "drain-required", "uncordon-required"}) {
    running.reset();
    SetNode(node, {{"metadata", {{"labels", {{std::string(api::kUpgradeState), state}}}}}});
    running = std::make_unique<RunningOperator>(name_space_);
    EXPECT_TRUE(Reaches(node, "upgrade-done")) << state;
    EXPECT_FALSE(IsCordoned(node)) << state;
  }
}

TEST_F(UpgradeTest, SwitchedOffInMidFlightEveryNodeIsLeftAsItWasFound) {
  const auto node = AddNode("a");
  const auto cordoned = AddNode("b");
  SetNode(cordoned, {{"spec", {{"unschedulable", true}}}});
  for (const auto& name : nodes_) {
    CreatePod("job-" + name, name, {{"labels", {{"kind", "job"}}}}, Json::object());
  }
  CreateUpgradePolicy(
      "{maxParallelUpgrades: 2, maxUnavailable: '100%', waitForCompletion: {podSelector: kind=job, "
      "timeoutSeconds: 3600}}");
  RunningOperator running(name_space_);
  ASSERT_TRUE(Settles());
  ChangeDriver("590.3.4");
  for (const auto& name : nodes_) ASSERT_TRUE(Reaches(name, "wait-for-jobs-required"));
  EXPECT_TRUE(IsCordoned(node));
  MergeSpec("cluster-policy", "driver: {upgradePolicy: {autoUpgrade: false}}");
  ASSERT_TRUE(
      Eventually([&] { return StateOf(node) == "(none)" && StateOf(cordoned) == "(none)"; }));
  EXPECT_FALSE(IsCordoned(node));
  EXPECT_TRUE(IsCordoned(cordoned));
  EXPECT_TRUE(Eventually([&] { return Traces(node).empty() && Traces(cordoned).empty(); }));
  EXPECT_TRUE(Eventually([&] {
    return running.Value("gpu_operator_nodes_upgrades_in_progress") == 0 &&
           running.Value("gpu_operator_driver_auto_upgrade_enabled") == 0;
  }));
}

TEST_F(UpgradeTest, ASelectorThatTheServerRefusesStopsBeforeAnyPodIsTouched) {
  const auto node = AddNode("a");
  CreateUpgradePolicy("{drain: {enable: true, podSelector: 'a in'}}");
  RunningOperator running(name_space_);
  ASSERT_TRUE(Settles());
  ChangeDriver("590.3.4");
  ASSERT_TRUE(Reaches(node, "upgrade-required"));
  ASSERT_TRUE(Eventually([&] {
    return Condition("cluster-policy", "DriverUpgradeReady")
        .starts_with("False UpgradeStopped: spec.driver.upgradePolicy.drain.podSelector: ");
  }));
  EXPECT_EQ(StateOf(node), "upgrade-required");
  MergeSpec("cluster-policy", "driver: {upgradePolicy: {drain: {podSelector: a=b}}}");
  ASSERT_TRUE(Settles());
  EXPECT_TRUE(
      Eventually([&] { return Condition("cluster-policy", "DriverUpgradeReady").empty(); }));
}

}  // namespace
}  // namespace pitcrew::gpu_operator::testing
