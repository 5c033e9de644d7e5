// Which driver pods are restarted for another version, on a real kube-apiserver.
#include "operator/upgrade/driver_pods.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "apiserver/interposed_server.h"
#include "support_upgrade.h"
#include "tests/support/daemon_thread.h"

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

// Of two drivers neither's answer is forgotten for the other's.
TEST_F(DriverPodsTest, EachVersionOfADaemonSetIsReadOnce) {
  const std::vector<std::string> drivers = {"one", "two"};
  std::vector<std::string> nodes;
  CreatePolicy("cluster-policy", kDelegated);
  for (const std::string& driver : drivers) {
    nodes.push_back(AddNode(driver));
    SetNode(nodes.back(), {{"metadata", {{"labels", {{"pool", driver}}}}}});
    CreateDriver(driver,
                 "{nodeSelector: {pool: " + driver + "}, upgradePolicy: {autoUpgrade: false}}");
  }
  const RunningOperator running(name_space_);
  std::atomic<bool> gone = false;
  const pitcrew::testing::InterposedServer server(
      [&](const auto& request, auto& reply, const io::StopToken&) {
        if (!gone || !request.path.contains("/daemonsets/")) return false;
        reply.Send(404, R"({"kind": "Status", "reason": "NotFound", "message": "gone",
                            "details": {"name": "nvidia-driver"}})");
        return true;
      });
  const auto client = server.MakeClient();
  World world(client, name_space_, ClusterIdentity{});
  kube::Controller controller({.name = "driver-pods", .workers = 1},
                              [](const kube::ObjectKey&, const io::StopToken&) {
                                return base::Result<kube::Action>(kube::Action::Done());
                              });
  DriverPods pods(world);
  pods.Watch(controller, [](const std::string&) {}, [] {});
  test_support::DaemonThread watching(
      [&](const io::StopToken& stop) { return controller.Run(stop); });
  const auto all_are = [&](driver_upgrade::Sync sync) {
    return Eventually([&] {
      Play();
      return std::ranges::all_of(
          nodes, [&](const std::string& node) { return pods.Of(node).sync == sync; });
    });
  };
  ASSERT_TRUE(all_are(driver_upgrade::Sync::kInSync));
  for (const std::string& driver : drivers) {
    Merge(desired::kNvidiaDrivers, Cluster(driver), {{"spec", {{"version", "590.3.4"}}}});
    AwaitTemplateWith("590.3.4", driver);
  }
  ASSERT_TRUE(all_are(driver_upgrade::Sync::kOutdated));
  // Whatever the watches say: a DaemonSet that a fresh read does not find has no newer version.
  gone = true;
  const auto unfounded = pods.ConfirmedViewOf(nodes.front(), {});
  EXPECT_TRUE(unfounded && unfounded->sync == driver_upgrade::Sync::kUnknown);
  gone = false;
  // What is asked of the server beside the watches.
  const auto reads = [&](const std::string& node) {
    const auto gets = [&] {
      std::uint64_t count = 0;
      for (const auto& [what, number] : client->request_counts()) {
        if (what.first == "get") count += number;
      }
      return count;
    };
    const auto before = gets();
    const auto view = pods.ConfirmedViewOf(node, {});
    EXPECT_TRUE(view && view->sync == driver_upgrade::Sync::kOutdated) << node;
    return gets() - before;
  };
  for (const std::string& node : nodes) EXPECT_EQ(reads(node), 1U) << node;
  for (const std::string& node : nodes) EXPECT_EQ(reads(node), 0U) << node;
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
