// Pods that are sent away from many nodes at once, on a real kube-apiserver.
#include <atomic>
#include <mutex>
#include <set>

#include "apiserver/interposed_server.h"
#include "operator/upgrade/node_work.h"
#include "support_upgrade.h"

namespace pitcrew::gpu_operator::testing {
namespace {

using driver_upgrade::Removal;

class RemovalsTest : public UpgradeTest {
 protected:
  // A pod that uses a GPU, on a node of its own, which has the pod's name.
  void CreatePodOf(const std::string& budget, const std::string& name) {
    CreatePod(name, name_space_ + "-" + name, {{"labels", {{"app", budget}}}},
              {{"resources", {{"limits", {{"nvidia.com/gpu", "1"}}}}}},
              {{"terminationGracePeriodSeconds", 0}});
    Merge(kube::kPods, Own(name),
          {{"status",
            {{"phase", "Running"},
             {"conditions", Json::array({{{"type", "Ready"}, {"status", "True"}}})}}}},
          "status");
    pods_.push_back(name);
  }
  void Remove(NodeWork& work, const std::string& pod) const {
    work.Remove(name_space_ + "-" + pod, {.only_gpu = true, .label_selector = "", .how = how_}, {});
  }
  void RemoveAll(NodeWork& work) const {
    for (const std::string& pod : pods_) Remove(work, pod);
  }
  // As the controller does, it begins again what the API server did not answer.
  [[nodiscard]] Removal::State StateOfRemoval(NodeWork& work, const std::string& pod) {
    const auto removal = work.RemovalOf(name_space_ + "-" + pod, true);
    if (removal) return removal->state;
    ++begun_again_[name_space_ + "-" + pod];
    Remove(work, pod);
    return Removal::State::kNotBegun;
  }
  [[nodiscard]] bool AllAre(Removal::State state, NodeWork& work) {
    std::size_t are = 0;  // all are looked at: each may have to be begun again
    for (const std::string& pod : pods_) are += StateOfRemoval(work, pod) == state ? 1 : 0;
    return are == pods_.size();
  }
  void NoteHeldUp(const std::string& node) {
    const std::lock_guard lock(mutex_);
    ++held_up_[node];
  }
  [[nodiscard]] std::map<std::string, int> HeldUp() const {
    const std::lock_guard lock(mutex_);
    return held_up_;
  }
  [[nodiscard]] std::unique_ptr<NodeWork> MakeWork(const RemovalLimits& limits) {
    return std::make_unique<NodeWork>(
        client_, [](const std::string&) {},
        [this](const std::string& node, const std::string&) { NoteHeldUp(node); }, limits);
  }

  std::vector<std::string> pods_;
  api::PodRemoval how_{.force = true};
  std::map<std::string, int> begun_again_;  // by node

 private:
  mutable std::mutex mutex_;
  std::map<std::string, int> held_up_;
};

// driver-lifecycle.md section 2.6: upstream stays in the state, too, and tries again.
TEST_F(RemovalsTest, AListOfPodsThatIsRefusedFailsNoNode) {
  kube::Config config = ApiServer::Shared().config();
  config.credentials =
      kube::StaticCredentials({.bearer_token = ApiServer::Shared().stranger_token()});
  auto stranger = kube::Client::Create(std::move(config));
  ASSERT_TRUE(stranger);
  std::atomic<bool> changed = false;
  NodeWork work(
      *stranger, [&](const std::string&) { changed = true; },
      [](const std::string&, const std::string&) {});
  work.Remove("node", {.only_gpu = true, .label_selector = "", .how = {}}, {});
  ASSERT_TRUE(Eventually([&] { return changed.load(); }));
  const auto removal = work.RemovalOf("node", true);
  ASSERT_FALSE(removal);
  EXPECT_EQ(removal.error().code, base::Code::kUnavailable);
  EXPECT_TRUE(removal.error().message.contains("list the pods of node node"))
      << removal.error().message;
}

// driver-lifecycle.md section 2.6, likewise: what has a claim for a network card is no GPU's pod
// because its claim could not be read.
TEST_F(RemovalsTest, AClaimThatCannotBeReadForAMomentFailsNoNode) {
  const std::string node = name_space_ + "-card";
  CreatePod("card", node, Json::object(), Json::object(),
            {{"resourceClaims",
              Json::array({{{"name", "card"}, {"resourceClaimName", "not-allocated"}}})}});
  std::atomic<bool> answers = false;
  const pitcrew::testing::InterposedServer server(
      [&](const auto& request, auto& reply, const io::StopToken&) {
        if (answers || !request.path.contains("/resourceclaims/")) return false;
        reply.Send(500, R"({"kind": "Status", "reason": "InternalError", "message": "not now"})");
        return true;
      });
  std::atomic<int> changes = 0;
  NodeWork work(
      server.MakeClient(), [&](const std::string&) { ++changes; },
      [](const std::string&, const std::string&) {});
  const PodsToRemove pods{.only_gpu = true, .label_selector = "", .how = {}};
  work.Remove(node, pods, {});
  ASSERT_TRUE(Eventually([&] { return changes == 1; }));
  const auto unknown = work.RemovalOf(node, true);
  ASSERT_FALSE(unknown) << "failed: " << unknown->why;
  EXPECT_EQ(unknown.error().reason, "ClaimNotRead");
  answers = true;
  work.Remove(node, pods, {});
  ASSERT_TRUE(Eventually([&] { return changes == 2; }));
  const auto removal = work.RemovalOf(node, true);
  ASSERT_TRUE(removal) << removal.error().ToString();
  EXPECT_EQ(removal->state, Removal::State::kDone);
  EXPECT_TRUE(Exists(kube::kPods, Own("card")));
}

// Seen in the code: with as many nodes held up as there were places, all others waited for ever.
TEST_F(RemovalsTest, NodesThatBudgetsHoldUpKeepNoOthersWaiting) {
  for (const char* name : {"a", "b", "c"}) CreatePodOf("held", name);
  Allow("held", 0);
  CreatePodOf("free", "d");
  const auto work = MakeWork({.at_once = 2, .held_up = std::chrono::milliseconds(200)});
  RemoveAll(*work);
  EXPECT_TRUE(Eventually([&] { return StateOfRemoval(*work, "d") == Removal::State::kDone; }));
  EXPECT_TRUE(Eventually([&] { return HeldUp().size() == 3; })) << "each has its turn";
  for (const char* name : {"a", "b", "c"}) {
    EXPECT_TRUE(Exists(kube::kPods, Own(name)));
    EXPECT_EQ(StateOfRemoval(*work, name), Removal::State::kUnderWay);
  }
  Allow("held", 30);  // more than it takes: an eviction that is asked for again counts again
  EXPECT_TRUE(Eventually([&] { return AllAre(Removal::State::kDone, *work); }));
  for (const auto& [node, times] : HeldUp()) {
    EXPECT_EQ(times, 1 + begun_again_[node]) << node << " is told of once";
  }
}

// Few: evictions under one budget keep each other from writing it, and kube-apiserver tries each
// for ten seconds.
TEST_F(RemovalsTest, MoreNodesThanHaveTurnsWhoseBudgetRefusesAllGoOnceItAllows) {
  constexpr int kNodes = 26;
  for (int number = 0; number < kNodes; ++number) CreatePodOf("held", std::to_string(number));
  Allow("held", 0);
  const auto work = MakeWork({.at_once = 20, .held_up = std::chrono::seconds(1)});
  RemoveAll(*work);
  EXPECT_TRUE(Eventually(
      [&] { return AllAre(Removal::State::kUnderWay, *work) && HeldUp().size() == kNodes; }));
  for (const std::string& pod : pods_) EXPECT_TRUE(Exists(kube::kPods, Own(pod)));
  Allow("held", 10 * kNodes);
  EXPECT_TRUE(Eventually([&] { return AllAre(Removal::State::kDone, *work); }));
  for (const std::string& pod : pods_) EXPECT_FALSE(Exists(kube::kPods, Own(pod)));
}

TEST_F(RemovalsTest, TheOneThatHasBeenHeldUpTheLongestMakesRoom) {
  for (const char* name : {"a", "b", "c"}) CreatePodOf("held", name);
  Allow("held", 0);
  // In each turn the node's pods are listed twice, at its beginning and to follow them.
  std::mutex mutex;
  std::string lists;  // the last letters of the nodes
  const pitcrew::testing::InterposedServer server(
      [&](const auto& request, auto&, const io::StopToken&) {
        const std::string node = name_space_ + "-";
        const auto at = request.query.find(node);
        if (at != std::string::npos && !request.query.contains("watch=")) {
          const std::lock_guard lock(mutex);
          lists += request.query.at(at + node.size());
        }
        return false;
      });
  NodeWork work(
      server.MakeClient(), [](const std::string&) {},
      [this](const std::string& node, const std::string&) { NoteHeldUp(node); },
      {.at_once = 2, .held_up = std::chrono::seconds(1)});
  const auto has_listed = [&](const std::string& nodes) {
    return Eventually([&] {
      const std::lock_guard lock(mutex);
      return lists.starts_with(nodes);
    });
  };
  // The second is held up after the first, though it may stand before it in memory.
  std::size_t held_up = 0;
  for (const char* name : {"a", "b"}) {
    Remove(work, name);
    ++held_up;
    ASSERT_TRUE(Eventually([&] { return HeldUp().size() == held_up; }));
  }
  ASSERT_TRUE(has_listed("aabb"));
  Remove(work, "c");
  // It has the place of the first, which comes in again before the third has to make room.
  const auto next = [&] {
    const std::lock_guard lock(mutex);
    const auto at = lists.find_first_not_of('c', lists.find('c'));
    return at == std::string::npos ? ' ' : lists.at(at);
  };
  EXPECT_TRUE(Eventually([&] { return next() != ' '; }));
  EXPECT_EQ(next(), 'a') << lists;
}

// It waits for no turn for longer than its time allows.
TEST_F(RemovalsTest, ATimeLimitEndsAlsoWhatMakesRoomForOthers) {
  for (const char* name : {"a", "b"}) CreatePodOf("held", name);
  Allow("held", 0);
  const auto work = MakeWork({.at_once = 1, .held_up = std::chrono::milliseconds(200)});
  how_.timeout_seconds = 1;
  RemoveAll(*work);
  for (const std::string& pod : pods_) {
    EXPECT_TRUE(Eventually([&] { return StateOfRemoval(*work, pod) == Removal::State::kFailed; }));
    EXPECT_TRUE(Exists(kube::kPods, Own(pod)));
  }
}

}  // namespace
}  // namespace pitcrew::gpu_operator::testing
