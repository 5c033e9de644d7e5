// Which driver pods are restarted for another version, on a real kube-apiserver.
#include "operator/upgrade/driver_pods.h"

#include <thread>

#include "support_upgrade.h"

namespace pitcrew::gpu_operator::testing {
namespace {

using DriverPodsTest = UpgradeTest;

// What is read last, before the pod is deleted, decides.
TEST_F(DriverPodsTest, OnlyAPodOfAFormerVersionIsOutdated) {
  const auto node = AddNode("a");
  CreateUpgradePolicy();
  const RunningOperator running(name_space_);
  ASSERT_TRUE(Settles());
  World world(client_, name_space_, ClusterIdentity{});
  kube::Controller controller({.name = "driver-pods", .workers = 1},
                              [](const kube::ObjectKey&, const io::StopToken&) {
                                return base::Result<kube::Action>(kube::Action::Done());
                              });
  DriverPods pods(world);
  pods.Watch(controller, [](const std::string&) {}, [] {});
  io::StopSource source;
  std::thread thread([&] { (void)controller.Run(source.token()); });
  EXPECT_TRUE(Eventually([&] { return pods.Of(node).sync == driver_upgrade::Sync::kInSync; }));
  const auto is_outdated = [&](const driver_upgrade::DriverPod& pod) {
    const auto outdated = pods.IsOutdated(pod, {});
    EXPECT_TRUE(outdated) << outdated.error().message;
    return outdated.value_or(false);
  };
  if (const auto pod = pods.Of(node).pod; pod != nullptr) {
    EXPECT_FALSE(is_outdated(*pod)) << "it is of the newest version";
    driver_upgrade::DriverPod former = *pod;
    former.revision = "former";
    EXPECT_TRUE(is_outdated(former));
    former.owner_uid = "gone";
    EXPECT_FALSE(is_outdated(former)) << "its DaemonSet is not known";
  } else {
    ADD_FAILURE() << "the node has no driver pod";
  }
  source.Stop();
  thread.join();
}

// A watch that is silent does not say how a validator is by now.
TEST_F(DriverPodsTest, ValidatorsAreReadAnewBeforeADriverCountsAsProven) {
  const auto node = AddNode("a");
  const auto other = AddNode("b");
  bad_validators_.insert(other);
  Play();
  World world(client_, name_space_, ClusterIdentity{});
  const DriverPods pods(world);
  const auto read = [&](const std::string& name) {
    const auto view = pods.WithValidatorsRead(pods.Of(name), name, {});
    EXPECT_TRUE(view) << view.error().message;
    return view ? std::pair(view->validators, view->validators_ready) : std::pair(-1, -1);
  };
  EXPECT_EQ(pods.Of(node).validators, 0);
  EXPECT_EQ(read(node), std::pair(1, 1));
  EXPECT_EQ(read(other), std::pair(1, 0));
  EXPECT_EQ(read("nowhere"), std::pair(0, 0));
}

}  // namespace
}  // namespace pitcrew::gpu_operator::testing
