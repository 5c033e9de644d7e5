// Drivers whose DaemonSets get other names while their policy goes on (driver-lifecycle.md sections
// 7.3 and 8.5), on a real kube-apiserver.
#include "api/labels.h"
#include "support_upgrade.h"

namespace pitcrew::gpu_operator::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr const char* kKernelLabel = "feature.node.kubernetes.io/kernel-version.full";
const std::string kPlain = "nvidia-driver-daemonset";

class UpgradeRenamedTest : public UpgradeTest {
 protected:
  std::string AddNodeWith(const std::string& name, const std::string& kernel) {
    const std::string node = AddNode(name);
    SetKernel(node, kernel);
    return node;
  }
  void SetKernel(const std::string& node, const std::string& kernel) {
    SetNode(node, {{"metadata", {{"labels", {{kKernelLabel, kernel}}}}}});
  }
  [[nodiscard]] std::vector<std::string> UidsOfDriverPods() const {
    std::vector<std::string> uids;
    for (const std::string& node : nodes_) {
      const auto pod = client_->Get(kube::kPods, Own("driver-" + node));
      uids.push_back(pod ? codec::FindString(*pod, {"metadata", "uid"}) : "none");
    }
    return uids;
  }
  // Names of the DaemonSets whose the nodes' driver pods are.
  [[nodiscard]] std::vector<std::string> OwnersOfDriverPods() const {
    std::vector<std::string> names;
    for (const std::string& node : nodes_) {
      const auto pod = client_->Get(kube::kPods, Own("driver-" + node));
      const Json* owners = pod ? codec::Find(*pod, {"metadata", "ownerReferences"}) : nullptr;
      names.push_back(owners == nullptr ? "" : codec::FindString((*owners)[0], {"name"}));
    }
    return names;
  }
  [[nodiscard]] std::vector<std::string> NamesOfDaemonSets() const {
    std::vector<std::string> names;
    for (const Json& daemonset : DriverDaemonSets()) names.push_back(kube::KeyOf(daemonset).name);
    return names;
  }
  void SetPrecompiled(bool precompiled) {
    MergeSpec("cluster-policy",
              std::string("driver: {usePrecompiled: ") + (precompiled ? "true}" : "false}"));
  }
  // Until no other DaemonSets of drivers stand than as many with that in their names.
  [[nodiscard]] bool BecomeDaemonSets(std::size_t count, const std::string& part) {
    const bool reached = Eventually([&] {
      Play();
      const auto names = NamesOfDaemonSets();
      return names.size() == count && std::ranges::all_of(names, [&](const std::string& name) {
               return part.empty() ? name == kPlain : name.find(part) != std::string::npos;
             });
    });
    EXPECT_TRUE(reached) << ::testing::PrintToString(NamesOfDaemonSets());
    return reached;
  }
  [[nodiscard]] bool AllReach(const std::string& state) {
    return std::ranges::all_of(nodes_,
                               [&](const std::string& node) { return Reaches(node, state); });
  }
};

// Upstream takes the driver of every node at once.
TEST_F(UpgradeRenamedTest, PrecompiledDriversComeNodeByNode) {
  AddNodeWith("a", "6.8.0-60-generic");
  AddNodeWith("b", "6.8.0-60-generic");
  const auto cordoned = AddNodeWith("c", "6.8.0-71-generic");
  SetNode(cordoned, {{"spec", {{"unschedulable", true}}}});
  CreateGpuPod("trainer", nodes_[0]);
  CreateUpgradePolicy("{maxUnavailable: '100%'}");
  RunningOperator running(name_space_);
  ASSERT_TRUE(Settles());
  const auto former = UidsOfDriverPods();
  const LabelHistory history(client_);

  const auto pause = [&](const Json& value) {
    Merge(desired::kClusterPolicies, Cluster("cluster-policy"),
          {{"metadata", {{"annotations", {{std::string(api::kUpgradePausedAnnotation), value}}}}}});
  };
  pause("true");
  SetPrecompiled(true);
  ASSERT_TRUE(BecomeDaemonSets(2, "-generic-"));
  ASSERT_TRUE(AllReach("upgrade-required"));
  EXPECT_EQ(UidsOfDriverPods(), former) << "each has its driver until its turn";
  EXPECT_THAT(OwnersOfDriverPods(),
              ElementsAre(HasSubstr("6.8.0-60"), HasSubstr("6.8.0-60"), HasSubstr("6.8.0-71")));
  EXPECT_TRUE(Exists(kube::kPods, Own("trainer")));

  pause(nullptr);
  ASSERT_TRUE(Settles());
  std::vector<std::string> whole = kWholeWay;
  whole.insert(whole.begin(), "upgrade-done");
  EXPECT_THAT(history.Of(nodes_[0]), ElementsAreArray(whole));
  EXPECT_THAT(history.Of(nodes_[1]), ElementsAreArray(whole));
  EXPECT_TRUE(IsCordoned(cordoned));
  EXPECT_FALSE(IsCordoned(nodes_[0]));
  EXPECT_FALSE(Exists(kube::kPods, Own("trainer")));
  const auto newer = UidsOfDriverPods();
  for (std::size_t i = 0; i < newer.size(); ++i) EXPECT_NE(newer[i], former[i]) << nodes_[i];
}

// And back, without rolling upgrades: as any change of a driver, it waits for its pod's end.
TEST_F(UpgradeRenamedTest, WithoutUpgradesEachChangesWhenItsPodIsDeleted) {
  AddNodeWith("a", "6.8.0-60-generic");
  AddNodeWith("b", "6.8.0-71-generic");
  CreateUpgradePolicy("{autoUpgrade: false}");
  SetPrecompiled(true);
  RunningOperator running(name_space_);
  ASSERT_TRUE(BecomeDaemonSets(2, "-generic-"));
  ASSERT_TRUE(Eventually([&] {
    Play();
    return std::ranges::count(UidsOfDriverPods(), "none") == 0;
  }));
  const auto former = UidsOfDriverPods();

  SetPrecompiled(false);
  ASSERT_TRUE(BecomeDaemonSets(1, ""));
  ASSERT_TRUE(Eventually([&] {
    Play();
    return OwnersOfDriverPods() == std::vector<std::string>(2, kPlain);
  }));
  EXPECT_EQ(UidsOfDriverPods(), former);
  ASSERT_TRUE(client_->Delete(kube::kPods, Own("driver-" + nodes_[1])));
  ASSERT_TRUE(Eventually([&] {
    Play();
    const auto now = UidsOfDriverPods();
    return now[0] == former[0] && now[1] != former[1] && now[1] != "none";
  }));
}

// Then the DaemonSet controller has taken the driver away already: it could not run there.
TEST_F(UpgradeRenamedTest, AKernelThatIsGoneLeavesNoDriverBehind) {
  AddNodeWith("a", "6.8.0-60-generic");
  const auto rebooted = AddNodeWith("b", "6.8.0-71-generic");
  CreateUpgradePolicy("{maxUnavailable: '100%'}");
  SetPrecompiled(true);
  RunningOperator running(name_space_);
  ASSERT_TRUE(BecomeDaemonSets(2, "-generic-"));
  ASSERT_TRUE(Settles());
  const auto former = UidsOfDriverPods();
  const LabelHistory history(client_);
  SetKernel(rebooted, "6.8.0-60-generic");
  ASSERT_TRUE(Eventually([&] { return NamesOfDaemonSets().size() == 1; }));
  EXPECT_THAT(OwnersOfDriverPods(), ElementsAre(HasSubstr("6.8.0-60"), HasSubstr("6.8.0-71")));
  ASSERT_TRUE(Eventually([&] {
    Play();
    const auto now = UidsOfDriverPods();
    return now[0] == former[0] && now[1] != former[1] && now[1] != "none";
  }));
  ASSERT_TRUE(Settles());
  EXPECT_THAT(OwnersOfDriverPods(), AllOf(SizeIs(2), Each(HasSubstr("6.8.0-60"))));
  EXPECT_THAT(history.Of(rebooted), ElementsAre("upgrade-done"));
}

// The same of a NVIDIADriver.
TEST_F(UpgradeRenamedTest, PrecompiledDriversOfAnObjectComeNodeByNode) {
  AddNodeWith("a", "6.8.0-60-generic");
  AddNodeWith("b", "6.8.0-60-generic");
  CreatePolicy("cluster-policy", kDelegated);
  CreateDriver("all",
               "{default: true, repository: registry.test, image: driver, version: 580.65.06, "
               "upgradePolicy: {maxUnavailable: '100%'}}");
  RunningOperator running(name_space_);
  ASSERT_TRUE(Settles());
  const LabelHistory history(client_);
  const auto former = NamesOfDaemonSets();
  Merge(desired::kNvidiaDrivers, Cluster("all"), {{"spec", {{"usePrecompiled", true}}}});
  ASSERT_TRUE(Eventually([&] {
    Play();
    return NamesOfDaemonSets() != former && NamesOfDaemonSets().size() == 1;
  })) << ::testing::PrintToString(NamesOfDaemonSets());
  ASSERT_TRUE(Settles());
  for (const std::string& node : nodes_) {
    EXPECT_THAT(history.Of(node), SizeIs(kWholeWay.size() + 1)) << node;
  }
  EXPECT_EQ(history.MostUnderWay(), 1);
}

}  // namespace
}  // namespace pitcrew::gpu_operator::testing
