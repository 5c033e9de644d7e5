// Evictions and claims on a real kube-apiserver. There is no kubelet: pods have no grace period, so
// that they are gone at once when they are deleted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "apiserver/api_server.h"
#include "apiserver/interposed_server.h"
#include "tests/support/patience.h"
#include "workload/evict.h"
#include "workload/gpu_use.h"
#include "workload/pause.h"

namespace pitcrew::workload {
namespace {

using namespace std::chrono_literals;
using codec::Json;
using ::pitcrew::testing::ApiServer;
using ::pitcrew::testing::InterposedServer;
using ::pitcrew::testing::ScriptedReply;
using ::pitcrew::testing::ScriptedRequest;
using ::testing::HasSubstr;

constexpr kube::ResourceKind kBudgets{"policy", "v1", "poddisruptionbudgets",
                                      "PodDisruptionBudget"};

class WorkloadTest : public ::testing::Test {
 protected:
  void SetUp() override {
    client_ = ApiServer::Shared().MakeClient();
    const auto number = std::to_string(++counter_);
    node_ = "workload-node-" + number;
    namespace_ = "workload-" + number;
    Make(kube::kNamespaces, {{"metadata", {{"name", namespace_}}}});
    Make(kube::kServiceAccounts, {{"metadata", {{"name", "default"}, {"namespace", namespace_}}}});
  }
  Json Make(const kube::ResourceKind& kind, const Json& object) {
    const auto made = client_->Create(kind, object);
    EXPECT_TRUE(made) << made.error().ToString();
    return made.value_or(Json::object());
  }
  // A pod that runs and is ready: only of those do budgets count.
  PodReference MakePod(const std::string& name, Json spec = Json::object()) {
    spec["nodeName"] = node_;
    spec["terminationGracePeriodSeconds"] = 0;
    spec["containers"] = Json::array({{{"name", "c"}, {"image", "i"}}});
    const auto pod = Make(
        kube::kPods,
        {{"metadata", {{"name", name}, {"namespace", namespace_}, {"labels", {{"app", name}}}}},
         {"spec", spec}});
    kube::WriteOptions status;
    status.subresource = "status";
    const Json running = {
        {"status",
         {{"phase", "Running"},
          {"conditions", Json::array({{{"type", "Ready"}, {"status", "True"}}})}}}};
    EXPECT_TRUE(
        client_->Patch(kube::kPods, {namespace_, name}, kube::PatchType::kMerge, running, status));
    return {{namespace_, name}, codec::FindString(pod, {"metadata", "uid"})};
  }
  void MakeBudget(const std::string& app) {
    Make(kBudgets,
         {{"metadata", {{"name", app}, {"namespace", namespace_}}},
          {"spec", {{"maxUnavailable", 1}, {"selector", {{"matchLabels", {{"app", app}}}}}}}});
    Allow(app, 0);
  }
  // What the disruption controller does.
  void Allow(const std::string& budget, int disruptions) {
    kube::WriteOptions status;
    status.subresource = "status";
    const auto set = client_->Patch(kBudgets, {namespace_, budget}, kube::PatchType::kMerge,
                                    {{"status",
                                      {{"observedGeneration", 1},
                                       {"disruptionsAllowed", disruptions},
                                       {"currentHealthy", 1},
                                       {"desiredHealthy", 1 - disruptions},
                                       {"expectedPods", 1}}}},
                                    status);
    EXPECT_TRUE(set) << set.error().ToString();
  }
  [[nodiscard]] bool IsThere(const PodReference& pod) const {
    return client_->Get(kube::kPods, pod.key).has_value();
  }

  static int counter_;
  std::shared_ptr<kube::Client> client_;
  std::string node_;
  std::string namespace_;
};
int WorkloadTest::counter_ = 0;

TEST_F(WorkloadTest, ABudgetIsAskedAgainUntilItAllows) {  // driver-lifecycle.md 3
  const auto free = MakePod("free");
  const auto held = MakePod("held");
  MakeBudget("held");
  EvictOptions options;
  std::vector<std::string> told;
  options.held_up = [&](const kube::ObjectKey& pod, const base::Error& why) {
    told.push_back(pod.name + ": " + why.message);
    // Whoever is not held up is not kept waiting, and the budget allows later.
    while (IsThere(free)) std::this_thread::yield();
    EXPECT_TRUE(IsThere(held));
    Allow("held", 1);
  };
  options.deadline = std::chrono::steady_clock::now() + test_support::kPatience;
  const auto done = EvictPods(client_, node_, {free, held}, options, {});
  ASSERT_TRUE(done) << done.error().ToString();
  ASSERT_EQ(told.size(), 1U);
  EXPECT_THAT(told.front(), HasSubstr("disruption budget"));
  EXPECT_FALSE(IsThere(held));
}

TEST_F(WorkloadTest, TheDeadlineNamesThePodAndItsBudget) {
  const auto held = MakePod("held");
  MakeBudget("held");
  EvictOptions options;
  options.deadline = std::chrono::steady_clock::now() + 5s;  // long enough for the refusal
  const auto done = EvictPods(client_, node_, {held}, options, {});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, base::Code::kTimeout);
  EXPECT_EQ(done.error().reason, "PodsNotGone");
  EXPECT_THAT(done.error().message, HasSubstr(held.key.ToString()));
  EXPECT_THAT(done.error().message, HasSubstr("disruption budget"));
  EXPECT_TRUE(IsThere(held));
}

TEST_F(WorkloadTest, AStopEndsTheWaitForABudget) {
  const auto held = MakePod("held");
  MakeBudget("held");
  const io::StopSource stop;
  EvictOptions options;
  options.held_up = [&](const kube::ObjectKey&, const base::Error&) { stop.Stop(); };
  EXPECT_EQ(EvictPods(client_, node_, {held}, options, stop.token()).error().code,
            base::Code::kCancelled);
}

TEST_F(WorkloadTest, APodThatIsGoneOrAnotherOfItsNameIsLeftAlone) {
  auto pod = MakePod("pod");
  pod.uid = "another-uid";
  EXPECT_TRUE(EvictPods(client_, node_, {pod}, {}, {}));
  EXPECT_TRUE(IsThere(pod));
  EXPECT_TRUE(EvictPods(client_, node_, {{{namespace_, "missing"}, "uid"}}, {}, {}));
}

TEST_F(WorkloadTest, OtherRefusalsEndAtOnceAndAreTold) {
  const auto pod = MakePod("pod");
  // Two budgets over one pod are an error of the server's, not a matter of time.
  MakeBudget("pod");
  Make(kBudgets, {{"metadata", {{"name", "second"}, {"namespace", namespace_}}},
                  {"spec", {{"selector", {{"matchLabels", {{"app", "pod"}}}}}}}});
  const auto done = EvictPods(client_, node_, {pod}, {}, {});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().reason, "PodsNotEvicted");
  EXPECT_THAT(done.error().message, HasSubstr("more than one PodDisruptionBudget"));
}

TEST_F(WorkloadTest, AnEvictionThatGetsNoAnswerIsAskedAgain) {
  const auto pod = MakePod("pod");
  std::atomic<int> asked = 0;
  const InterposedServer server(
      [&](const ScriptedRequest& request, ScriptedReply&, const io::StopToken& stop) {
        if (!request.path.ends_with("/eviction") || ++asked > 1) return false;
        stop.Wait();
        return true;
      });
  EvictOptions options;
  options.answer_timeout = 2s;
  options.deadline = base::Deadline::After(test_support::kPatience);
  const auto done = EvictPods(server.MakeClient(), node_, {pod}, options, {});
  EXPECT_TRUE(done) << done.error().ToString();
  EXPECT_FALSE(IsThere(pod));
  EXPECT_GE(asked, 2);
}

TEST_F(WorkloadTest, AnEvictionThatMetAnotherChangeIsAskedAgainWhileThePodIsThere) {
  const auto pod = MakePod("pod");
  std::atomic<int> asked = 0;
  const InterposedServer server(
      [&](const ScriptedRequest& request, ScriptedReply& reply, const io::StopToken&) {
        if (!request.path.ends_with("/eviction") || ++asked > 2) return false;
        reply.Send(409, R"({"kind": "Status", "reason": "Conflict", "message": "changed"})");
        return true;
      });
  EvictOptions options;
  options.deadline = base::Deadline::After(test_support::kPatience);
  const auto done = EvictPods(server.MakeClient(), node_, {pod}, options, {});
  EXPECT_TRUE(done) << done.error().ToString();
  EXPECT_FALSE(IsThere(pod));
  EXPECT_EQ(asked, 3);
}

TEST_F(WorkloadTest, PodsThatCannotBeListedInTimeHaveNotStayed) {
  const InterposedServer server(
      [](const ScriptedRequest& request, ScriptedReply&, const io::StopToken& stop) {
        if (!request.path.ends_with("/pods")) return false;
        stop.Wait();
        return true;
      });
  EvictOptions options;
  options.deadline = base::Deadline::After(100ms);
  const auto done = EvictPods(server.MakeClient(), node_, {{{namespace_, "p"}, "u"}}, options, {});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, base::Code::kUnavailable) << done.error().ToString();
}

TEST_F(WorkloadTest, AServerThatAnswersNoEvictionHasNotRefused) {
  const auto pod = MakePod("pod");
  const InterposedServer server(
      [](const ScriptedRequest& request, ScriptedReply&, const io::StopToken& stop) {
        if (!request.path.ends_with("/eviction")) return false;
        stop.Wait();
        return true;
      });
  EvictOptions options;
  options.answer_timeout = 10ms;
  options.pauses.base = 1ms;
  const auto done = EvictPods(server.MakeClient(), node_, {pod}, options, {});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, base::Code::kUnavailable);
  EXPECT_EQ(done.error().reason, "PodsNotEvicted");
  EXPECT_THAT(done.error().message, HasSubstr("no whole answer"));
  EXPECT_TRUE(IsThere(pod));
}

TEST_F(WorkloadTest, AClaimOfAGpuMakesAPodAGpuPod) {  // driver-lifecycle.md 2.8
  const kube::ResourceKind claims{"resource.k8s.io", "v1", "resourceclaims", "ResourceClaim"};
  const auto served = client_->Serves(claims);
  ASSERT_TRUE(served);
  if (!*served) GTEST_SKIP() << "this API server has no resource.k8s.io/v1";
  const Json request = {{"name", "gpu"}, {"exactly", {{"deviceClassName", "gpu.nvidia.com"}}}};
  Make(claims, {{"metadata", {{"name", "claim"}, {"namespace", namespace_}}},
                {"spec", {{"devices", {{"requests", Json::array({request})}}}}}});
  const Json with_claim = {
      {"resourceClaims", Json::array({{{"name", "a"}, {"resourceClaimName", "claim"}}})}};
  MakePod("user", with_claim);
  const auto pod = [&] { return *client_->Get(kube::kPods, {namespace_, "user"}); };
  EXPECT_EQ(CheckGpuUse(*client_, pod(), {}), false) << "nothing is allocated yet";
  kube::WriteOptions status;
  status.subresource = "status";
  const Json result = {
      {"request", "gpu"}, {"driver", "gpu.nvidia.com"}, {"pool", "p"}, {"device", "gpu-0"}};
  const auto allocated = client_->Patch(
      claims, {namespace_, "claim"}, kube::PatchType::kMerge,
      {{"status", {{"allocation", {{"devices", {{"results", Json::array({result})}}}}}}}}, status);
  ASSERT_TRUE(allocated) << allocated.error().ToString();
  EXPECT_EQ(CheckGpuUse(*client_, pod(), {}), true);
}

TEST_F(WorkloadTest, ClaimsThatCannotBeReadCountAsGpus) {  // unknown is not absent
  auto config = ApiServer::Shared().config();
  config.credentials =
      kube::StaticCredentials({.bearer_token = ApiServer::Shared().stranger_token()});
  const auto stranger = kube::Client::Create(std::move(config));
  const Json pod = {
      {"metadata", {{"name", "p"}, {"namespace", namespace_}}},
      {"spec", {{"resourceClaims", Json::array({{{"name", "a"}, {"resourceClaimName", "c"}}})}}}};
  ASSERT_TRUE(stranger);
  EXPECT_EQ(CheckGpuUse(**stranger, pod, {}), true);
  EXPECT_EQ(CheckGpuUse(*client_, pod, {}), false) << "a claim that is not there holds nothing";
}

TEST_F(WorkloadTest, AnOperandThatHasOnlyTheOtherLabelIsWaitedForToo) {
  MakePod("vfio-manager");
  const Json labels = {{"app", nullptr}, {"name", "nvidia-vfio-manager"}};
  ASSERT_TRUE(client_->Patch(kube::kPods, {namespace_, "vfio-manager"}, kube::PatchType::kMerge,
                             {{"metadata", {{"labels", labels}}}}));
  const auto waited = AwaitOperandsGone(client_, node_, namespace_, {"nvidia-vfio-manager"},
                                        std::chrono::steady_clock::now() + 3s, {});
  EXPECT_THAT(waited.error().message, HasSubstr(": vfio-manager"));
}

TEST_F(WorkloadTest, OperandsThatStayAreNamed) {
  MakePod("nvidia-dcgm");
  MakePod("bystander");
  const auto soon = std::chrono::steady_clock::now() + 3s;
  const auto waited =
      AwaitOperandsGone(client_, node_, namespace_, {"nvidia-dcgm", "other"}, soon, {});
  ASSERT_FALSE(waited);
  EXPECT_EQ(waited.error().reason, "OperandsStillRunning");
  EXPECT_THAT(waited.error().message, HasSubstr(": nvidia-dcgm"));
  EXPECT_TRUE(AwaitOperandsGone(client_, node_, namespace_, {"other"},
                                std::chrono::steady_clock::now() + 30s, {}));
}

}  // namespace
}  // namespace pitcrew::workload
