// When and in which order drivers are upgraded (driver.upgradePolicy.schedule), on a real
// kube-apiserver.
#include "api/labels.h"
#include "desired/cluster_kinds.h"
#include "driver_upgrade/record.h"
#include "support_upgrade.h"

namespace pitcrew::gpu_operator::testing {
namespace {

using ::testing::ElementsAreArray;
using ::testing::IsEmpty;

class UpgradeScheduleTest : public UpgradeTest {
 protected:
  // Null takes the annotation away.
  void Annotate(std::string_view key, const Json& value) {
    EXPECT_TRUE(client_->Patch(desired::kClusterPolicies, Cluster("cluster-policy"),
                               kube::PatchType::kMerge,
                               {{"metadata", {{"annotations", {{std::string(key), value}}}}}}));
  }
  [[nodiscard]] std::string UpgradeCondition() const {
    return Condition("cluster-policy", "DriverUpgradeReady");
  }
  void Label(const std::string& node, const std::string& key, const std::string& value) {
    SetNode(node, {{"metadata", {{"labels", {{key, value}}}}}});
  }
};

TEST_F(UpgradeScheduleTest, APauseKeepsAllNodesAndThoseUnderWayGoOn) {
  const auto under_way = AddNode("a");
  const auto waiting = AddNode("b");
  const auto cordoned = AddNode("c");
  SetNode(cordoned, {{"spec", {{"unschedulable", true}}}});
  CreatePod("job", under_way, {{"labels", {{"kind", "job"}}}}, Json::object());
  CreateUpgradePolicy(
      "{maxParallelUpgrades: 0, maxUnavailable: '100%', waitForCompletion: {podSelector: "
      "kind=job}}");
  RunningOperator running(name_space_);
  ASSERT_TRUE(Settles());
  const auto skip = [&](const Json& value) {
    for (const auto& node : {waiting, cordoned}) {
      SetNode(node, {{"metadata", {{"labels", {{std::string(api::kUpgradeSkip), value}}}}}});
    }
  };
  skip("true");
  ChangeDriver("590.3.4");
  ASSERT_TRUE(Reaches(under_way, "wait-for-jobs-required"));
  ASSERT_TRUE(Reaches(waiting, "upgrade-required"));
  ASSERT_TRUE(Reaches(cordoned, "upgrade-required"));
  const auto available = [&] { return running.Value("gpu_operator_nodes_upgrades_available"); };
  ASSERT_TRUE(Eventually([&] { return available() == 2; }));
  Annotate(api::kUpgradePausedAnnotation, "true");
  // That it has been seen is told by the places that there are no more.
  ASSERT_TRUE(Eventually([&] { return available() == 0; }));
  ASSERT_TRUE(client_->Delete(kube::kPods, Own("job")));
  skip(nullptr);
  ASSERT_TRUE(Reaches(under_way, "upgrade-done"));
  EXPECT_EQ(StateOf(waiting), "upgrade-required");
  EXPECT_EQ(StateOf(cordoned), "upgrade-required") << "a pause is for all";
  EXPECT_THAT(UpgradeCondition(), IsEmpty()) << "somebody wants it so";
  Annotate(api::kUpgradePausedAnnotation, nullptr);
  EXPECT_TRUE(Settles());
  EXPECT_TRUE(IsCordoned(cordoned));
}

TEST_F(UpgradeScheduleTest, TheFirstNodesAreObservedAndThenAllOthersBegin) {
  const auto first = AddNode("a");
  const auto second = AddNode("b");
  const auto third = AddNode("c");
  CreateUpgradePolicy(
      "{maxParallelUpgrades: 0, maxUnavailable: '100%', schedule: {canary: {observeSeconds: 3}}}");
  RunningOperator running(name_space_);
  ASSERT_TRUE(Settles());
  const LabelHistory history(client_);
  ChangeDriver("590.3.4");
  ASSERT_TRUE(Reaches(first, "upgrade-done"));
  // Nothing happens any longer until the time is up.
  ASSERT_TRUE(Settles());
  EXPECT_EQ(history.MostUnderWay(), 2) << "the others began together, after the first";
  const auto finished = [&](const std::string& name) {
    const auto node = client_->Get(kube::kNodes, Cluster(name));
    const auto record = driver_upgrade::ReadRecord(
        codec::FindString(*node, {"metadata", "annotations", api::kUpgradeLastAnnotation}));
    EXPECT_TRUE(record && record->duration) << name;
    return record ? record->finished : base::WallClock::time_point();
  };
  for (const auto& other : {second, third}) {
    EXPECT_GE(finished(other), finished(first) + std::chrono::seconds(2)) << other;
    auto states = history.Of(other);
    ASSERT_FALSE(states.empty());
    states.erase(states.begin());  // of before
    EXPECT_THAT(states, ElementsAreArray(kWholeWay));
  }
}

TEST_F(UpgradeScheduleTest, AFirstNodeThatFailsKeepsTheOthers) {
  const auto first = AddNode("a");
  const auto second = AddNode("b");
  CreateUpgradePolicy(
      "{maxParallelUpgrades: 0, maxUnavailable: '100%', schedule: {canary: {nodes: 1}}}");
  RunningOperator running(name_space_);
  ASSERT_TRUE(Settles());
  bad_drivers_.insert(first);
  ChangeDriver("590.3.4");
  ASSERT_TRUE(Reaches(first, "upgrade-failed"));
  EXPECT_TRUE(Eventually([&] {
    return UpgradeCondition() ==
           "False UpgradeStopped: node " + first + ", one of the first 1, has failed";
  }));
  EXPECT_EQ(StateOf(second), "upgrade-required");
  // Somebody takes it out: another goes first.
  Label(first, std::string(api::kUpgradeSkip), "true");
  EXPECT_TRUE(Reaches(second, "upgrade-done"));
  EXPECT_TRUE(Eventually([&] { return UpgradeCondition().empty(); }));
}

TEST_F(UpgradeScheduleTest, APersonApprovesTheVersion) {
  AddNode("a");
  const auto second = AddNode("b");
  CreateUpgradePolicy(
      "{maxParallelUpgrades: 0, maxUnavailable: '100%', schedule: {canary: {requireApproval: "
      "true}}}");
  RunningOperator running(name_space_);
  ASSERT_TRUE(Settles());
  ChangeDriver("590.3.4");
  ASSERT_TRUE(Eventually([&] {
    Play();
    return UpgradeCondition().contains("is not approved");
  }));
  EXPECT_EQ(StateOf(second), "upgrade-required");
  const std::string told = UpgradeCondition();
  const std::size_t begin = told.find("approved=") + std::string("approved=").size();
  Annotate(api::kUpgradeApprovedAnnotation, told.substr(begin, told.find(' ', begin) - begin));
  EXPECT_TRUE(Settles());
}

TEST_F(UpgradeScheduleTest, OneValueOfALabelAfterTheOther) {
  const auto a = AddNode("a");
  const auto b = AddNode("b");
  const auto c = AddNode("c");
  Label(a, "example.com/rack", "r2");
  Label(b, "example.com/rack", "r1");
  CreateUpgradePolicy(
      "{maxParallelUpgrades: 0, maxUnavailable: '100%', schedule: {order: {label: "
      "example.com/rack}}}");
  RunningOperator running(name_space_);
  ASSERT_TRUE(Settles());
  const LabelHistory history(client_);
  bad_validators_.insert(b);
  ChangeDriver("590.3.4");
  ASSERT_TRUE(Reaches(b, "validation-required"));
  EXPECT_EQ(StateOf(a), "upgrade-required");
  EXPECT_EQ(StateOf(c), "upgrade-required");
  bad_validators_.clear();
  EXPECT_TRUE(Settles());
  EXPECT_EQ(history.MostUnderWay(), 1);
}

TEST_F(UpgradeScheduleTest, AScheduleThatCannotBeStopsBeforeAnyPodIsTouched) {
  const auto node = AddNode("a");
  CreateUpgradePolicy();
  RunningOperator running(name_space_);
  ASSERT_TRUE(Settles());
  Annotate(api::kUpgradeScheduleAnnotation,
           "windows: [{start: '22:00', end: '04:00', timeZone: Europe/Atlantis}]");
  ASSERT_TRUE(Eventually([&] {
    return UpgradeCondition().starts_with(
        "False UpgradeStopped: metadata.annotations[nvidia.com/gpu-driver-upgrade.schedule]."
        "windows[0].timeZone: no time zone \"Europe/Atlantis\" is known");
  }));
  ChangeDriver("590.3.4");
  EXPECT_TRUE(IsLookedAtAgain(running, node));
  EXPECT_EQ(StateOf(node), "upgrade-done");
  Annotate(api::kUpgradeScheduleAnnotation, "windows: [{start: '00:00', end: '24:00'}]");
  EXPECT_TRUE(Settles());
  EXPECT_TRUE(Eventually([&] { return UpgradeCondition().empty(); }));
  // In the field: the driver's condition names it, as it does with every other member.
  MergeSpec("cluster-policy",
            "driver: {version: '595.1.1', upgradePolicy: {schedule: {windows: [{start: '22:00', "
            "end: '22:00'}]}}}");
  Annotate(api::kUpgradeScheduleAnnotation, nullptr);
  EXPECT_TRUE(Eventually([&] {
    return Condition("cluster-policy", "DriverReady")
        .contains("spec.driver.upgradePolicy.schedule.windows[0].end: is the start of the window");
  })) << Condition("cluster-policy", "DriverReady");
  EXPECT_TRUE(IsLookedAtAgain(running, node));
  EXPECT_EQ(StateOf(node), "upgrade-done");
}

}  // namespace
}  // namespace pitcrew::gpu_operator::testing
