// Which pod is behind, from a real kube-apiserver.
#include <atomic>

#include "operator/roll_out/lagging_pods.h"
#include "support_operator.h"

namespace pitcrew::gpu_operator::testing {
namespace {

class LaggingPodsTest : public OperatorTest {
 protected:
  void CreatePod(const std::string& name, bool ready) {
    Create(kube::kServiceAccounts,
           {{"metadata", {{"name", "sa-" + name}, {"namespace", name_space_}}}});
    Create(kube::kPods, {{"metadata",
                          {{"name", name},
                           {"namespace", name_space_},
                           {"labels", {{"app", "plugin"}}},
                           {"ownerReferences",
                            {{{"apiVersion", "apps/v1"},
                              {"kind", "DaemonSet"},
                              {"name", "plugin"},
                              {"uid", "7"},
                              {"controller", true}}}}}},
                         {"spec",
                          {{"nodeName", "node-of-" + name},
                           {"serviceAccountName", "sa-" + name},
                           {"containers", {{{"name", "main"}, {"image", "x"}}}}}}});
    SetReady(name, ready);
  }
  void SetReady(const std::string& name, bool ready) {
    Merge(kube::kPods, Own(name),
          {{"status",
            {{"phase", "Running"},
             {"conditions", {{{"type", "Ready"}, {"status", ready ? "True" : "False"}}}}}}},
          "status");
  }
  static DaemonSetPods Plugin() {
    return {.name = "plugin", .uid = "7", .label_selector = "app=plugin", .desired = 2};
  }
  // Who is asked does not know at once, and tells when it does.
  static std::optional<desired::LaggingPod> FindAtLast(LaggingPods& pods,
                                                       const std::atomic<int>& told) {
    EXPECT_EQ(pods.Find(Plugin()), std::nullopt);
    EXPECT_TRUE(Eventually([&] { return told > 0; }));
    return pods.Find(Plugin());
  }
};

// The roll-out asks on the only worker of the policies: it is not to wait for the API server.
TEST_F(LaggingPodsTest, AreLookedForWithoutKeepingAnybodyWaiting) {
  CreatePod("a", true);
  CreatePod("b", false);
  std::atomic<int> told = 0;
  LaggingPods pods(client_, name_space_, [&] { ++told; }, [](std::chrono::nanoseconds) {});
  const auto found = FindAtLast(pods, told);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->name, "b");
  EXPECT_EQ(found->node, "node-of-b");
  // Its watch tells when it is ready.
  SetReady("b", true);
  EXPECT_TRUE(Eventually([&] { return !pods.Find(Plugin()); }));
}

TEST_F(LaggingPodsTest, OfSeveralTheFirstByItsNodeIsNamed) {
  CreatePod("a", true);
  CreatePod("b", false);
  CreatePod("c", false);
  CreatePod("d", true);
  std::atomic<int> told = 0;
  LaggingPods pods(client_, name_space_, [&] { ++told; }, [](std::chrono::nanoseconds) {});
  const auto found = FindAtLast(pods, told);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->node, "node-of-b");
}

TEST_F(LaggingPodsTest, NobodyBehindIsLookedForAgainLater) {
  CreatePod("a", true);
  std::atomic<int> told = 0;
  std::atomic<bool> again = false;
  LaggingPods pods(
      client_, name_space_, [&] { ++told; },
      [&](std::chrono::nanoseconds delay) { again = delay > std::chrono::seconds(0); });
  EXPECT_EQ(pods.Find(Plugin()), std::nullopt);
  EXPECT_TRUE(Eventually([&] { return again.load(); }));
  EXPECT_EQ(pods.Find(Plugin()), std::nullopt);
  EXPECT_EQ(told, 0);
}

// A look that is under way when the operator leaves does not hold it up.
TEST_F(LaggingPodsTest, LeaveAtOnce) {
  LaggingPods pods(
      ApiServer::Shared().MakeClient(), name_space_, [] {}, [](std::chrono::nanoseconds) {});
  EXPECT_EQ(pods.Find(Plugin()), std::nullopt);
}

}  // namespace
}  // namespace pitcrew::gpu_operator::testing
