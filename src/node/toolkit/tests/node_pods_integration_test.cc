// The operator's pods of one node, against a real API server; the kubelet's part is played by the
// test.
#include "node/toolkit/node_pods.h"

#include <gtest/gtest.h>

#include <thread>

#include "apiserver/api_server.h"
#include "kube/await.h"
#include "kube/projection.h"
#include "node/toolkit/successor.h"
#include "tests/support/patience.h"

namespace pitcrew::node::toolkit {
namespace {

using codec::Json;
using namespace std::chrono_literals;

// More than any try takes: what ends a wait is an event.
const std::vector<std::chrono::milliseconds> kOneTry = {60s};
const std::vector<std::chrono::milliseconds> kManyTries(10'000, 1ms);

class NodePodsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    client_ = testing::ApiServer::Shared().MakeClient();
    static int number = 0;
    namespace_ = "node-pods-" + std::to_string(++number);
    const Json name = {{"metadata", {{"name", namespace_}}}};
    ASSERT_TRUE(client_->Create(kube::kNamespaces, name));
    ASSERT_TRUE(client_->Create(kube::kServiceAccounts,
                                {{"metadata", {{"name", "default"}, {"namespace", namespace_}}}}));
    const kube::ResourceKind runtime_classes{"node.k8s.io", "v1", "runtimeclasses", "RuntimeClass",
                                             false};
    const auto made = client_->Create(runtime_classes,
                                      {{"metadata", {{"name", "nvidia"}}}, {"handler", "nvidia"}});
    ASSERT_TRUE(made || made.error().code == base::Code::kExists);
    AddPod("toolkit", "here", "", "Running");
  }

  void AddPod(const std::string& name, const std::string& node, const std::string& runtime_class,
              const std::string& phase) {
    // The finalizer keeps a deleted pod, as its kubelet would until its end.
    Json pod = {
        {"metadata",
         {{"name", name}, {"namespace", namespace_}, {"finalizers", {"example.com/kubelet"}}}},
        {"spec",
         {{"nodeName", node},
          {"containers", Json::array({{{"name", "main"}, {"image", "none"}}})}}}};
    if (!runtime_class.empty()) pod["spec"]["runtimeClassName"] = runtime_class;
    const auto created = client_->Create(kube::kPods, pod);
    ASSERT_TRUE(created) << created.error().message;
    SetStatus(name, {{"phase", phase}});
  }
  void SetStatus(const std::string& name, const Json& status) {
    ASSERT_TRUE(client_->Patch(kube::kPods, Key(name), kube::PatchType::kMerge,
                               {{"status", status}}, {.subresource = "status"}));
  }
  void StartSandbox(const std::string& name) {
    SetStatus(name, {{"conditions",
                      Json::array({{{"type", "PodReadyToStartContainers"}, {"status", "True"}}})}});
  }
  void End(const std::string& name) {
    ASSERT_TRUE(client_->Patch(kube::kPods, Key(name), kube::PatchType::kMerge,
                               {{"metadata", {{"finalizers", nullptr}}}}));
  }
  void Delete(const std::string& name) {
    kube::DeleteOptions at_once;
    at_once.grace_period_seconds = 0;
    ASSERT_TRUE(client_->Delete(kube::kPods, Key(name), at_once));
  }
  [[nodiscard]] std::string Mark(const std::string& name) {
    const auto pod = client_->Get(kube::kPods, Key(name));
    EXPECT_TRUE(pod) << pod.error().message;
    return pod ? codec::FindString(*pod, {"metadata", "annotations", kRuntimeConfigured}) : "";
  }
  // Returns after the pod has been changed `times` times.
  void AwaitMarks(const std::string& name, std::size_t times) {
    std::set<std::string> marks;
    const auto seen = kube::Await<std::string>(
        client_, kube::kPods, kube::ProjectJson<std::string>([](const Json& pod) {
          return base::Result<std::string>(
              codec::FindString(pod, {"metadata", "annotations", kRuntimeConfigured}));
        }),
        {.namespace_name = namespace_, .field_selector = "metadata.name=" + name},
        [&](const kube::Store<std::string>& store) -> base::Result<bool> {
          for (const auto& [key, mark] : store.Snapshot()) marks.insert(*mark);
          marks.erase("");
          return marks.size() >= times;
        },
        {}, std::chrono::steady_clock::now() + test_support::kPatience);
    EXPECT_TRUE(seen) << seen.error().message;
  }
  [[nodiscard]] NodePods Pods() {
    auto pods = NodePods::Find(client_, namespace_, "toolkit", "", {});
    EXPECT_TRUE(pods) << pods.error().message;
    return *std::move(pods);
  }
  [[nodiscard]] kube::ObjectKey Key(const std::string& name) const {
    return {.namespace_name = namespace_, .name = name};
  }

  std::string namespace_;
  std::shared_ptr<kube::Client> client_;
};

TEST_F(NodePodsTest, WaitingOnesOfThisNodeWithARuntimeClassAreTriedAgain) {
  AddPod("plugin", "here", "nvidia", "Pending");
  AddPod("running", "here", "nvidia", "Running");
  AddPod("starting", "here", "nvidia", "Pending");
  StartSandbox("starting");
  AddPod("without-class", "here", "", "Pending");
  AddPod("elsewhere", "there", "nvidia", "Pending");
  std::jthread kubelet([&] {
    AwaitMarks("plugin", 1);
    StartSandbox("plugin");
  });
  const auto count = Pods().RetryWaiting(kOneTry, {});
  ASSERT_TRUE(count) << count.error().message;
  EXPECT_EQ(*count, 1u);
  EXPECT_NE(Mark("plugin"), "");
  for (const auto* other : {"running", "starting", "without-class", "elsewhere"}) {
    EXPECT_EQ(Mark(other), "") << other;
  }

  const auto stranger = NodePods::Find(client_, namespace_, "nobody", "", {});
  ASSERT_FALSE(stranger);
  EXPECT_EQ(stranger.error().code, base::Code::kNotFound);
}

// With hostNetwork the host's name is the node's, and no pod is named so.
TEST_F(NodePodsTest, InTheHostsNetworkTheOwnPodIsFoundByItsUid) {
  AddPod("other", "here", "", "Running");
  const auto own = client_->Get(kube::kPods, Key("toolkit"));
  ASSERT_TRUE(own) << own.error().message;
  const auto uid = codec::FindString(*own, {"metadata", "uid"});
  AddPod("plugin", "here", "nvidia", "Pending");
  const auto pods = NodePods::Find(client_, namespace_, "here", uid, {});
  ASSERT_TRUE(pods) << pods.error().message;
  const auto count = pods->RetryWaiting({1ms}, {});
  ASSERT_TRUE(count) << count.error().message;
  EXPECT_EQ(*count, 1u);

  const auto elsewhere = NodePods::Find(client_, namespace_, "there", uid, {});
  ASSERT_FALSE(elsewhere);
  EXPECT_EQ(elsewhere.error().reason, "OwnPodNotFound");
}

// A pod that sees the host's mounts sees those of other pods too.
TEST(PodUid, IsThatOfTheKubeletsOwnMounts) {
  EXPECT_EQ(
      PodUidOf("36 35 0:5 /pods/other/volumes/x /host/var/lib/kubelet/pods/other/volumes/x rw\n"
               "37 35 8:1 /var/lib/kubelet/pods/0a1b-2c/etc-hosts /etc/hosts rw,relatime - ext4\n"),
      "0a1b-2c");
  EXPECT_EQ(PodUidOf("37 35 8:1 /kubelet/pods/9f/containers/c/1 /dev/termination-log rw - tmpfs\n"),
            "9f");
  EXPECT_EQ(PodUidOf("37 35 8:1 /etc/hosts /etc/hosts rw - ext4\n36 1 0:1 / / rw\n"), "");
}

// The kubelet's connection to the restarted engine was still broken.
TEST_F(NodePodsTest, AFailedTryIsFollowedByAnother) {
  AddPod("plugin", "here", "nvidia", "Pending");
  std::jthread kubelet([&] {
    AwaitMarks("plugin", 2);
    StartSandbox("plugin");
  });
  const auto count = Pods().RetryWaiting(kManyTries, {});
  ASSERT_TRUE(count) << count.error().message;
  EXPECT_EQ(*count, 1u);
}

TEST_F(NodePodsTest, OnesThatNeverStartAreGivenUp) {
  AddPod("plugin", "here", "nvidia", "Pending");
  const auto count = Pods().RetryWaiting({1ms, 1ms}, {});
  ASSERT_TRUE(count) << count.error().message;
  EXPECT_EQ(*count, 1u);
}

TEST_F(NodePodsTest, LeavingOnesAreWaitedForAndTriedAgain) {
  AddPod("plugin", "here", "nvidia", "Running");
  AddPod("driver", "here", "", "Running");
  AddPod("stays", "here", "nvidia", "Running");
  const auto pods = Pods();
  EXPECT_TRUE(pods.AwaitLeaving({}, std::chrono::steady_clock::now() + test_support::kPatience));
  Delete("plugin");
  Delete("driver");  // its end takes long and needs no engine: nobody waits for it
  const auto late = pods.AwaitLeaving({}, std::chrono::steady_clock::now());
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, base::Code::kTimeout);
  std::jthread kubelet([&] {
    AwaitMarks("plugin", 1);
    End("plugin");
  });
  const auto count = pods.RetryLeaving(kOneTry, {});
  ASSERT_TRUE(count) << count.error().message;
  EXPECT_EQ(*count, 1u);
  EXPECT_EQ(Mark("stays"), "");
  EXPECT_TRUE(pods.AwaitLeaving({}, std::chrono::steady_clock::now() + test_support::kPatience));
}

// Its own grace ends sooner than what it waits for.
TEST_F(NodePodsTest, NoWaitGoesBeyondTheDeadlineOfAll) {
  AddPod("plugin", "here", "nvidia", "Running");
  Delete("plugin");
  const auto pods =
      NodePods::Find(client_, namespace_, "toolkit", "", {}, base::Deadline::After(0s));
  ASSERT_TRUE(pods) << pods.error().message;
  const auto late =
      pods->AwaitLeaving({}, std::chrono::steady_clock::now() + test_support::kPatience);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, base::Code::kTimeout);
  End("plugin");
}

// An API server that is away does not say that nobody takes over.
TEST_F(NodePodsTest, WithoutAnAnswerTheEngineStaysConfigured) {
  const auto pods = Pods();
  const auto alone = pods.HasSuccessor({});
  ASSERT_TRUE(alone) << alone.error().message;
  EXPECT_FALSE(KeepsConfiguration(alone)) << "a pod of no DaemonSet";
  kube::Config away = client_->config();
  away.server = "https://127.0.0.1:1";
  auto client = kube::Client::Create(std::move(away), {.limits = {.retry = {.attempts = 1}}});
  ASSERT_TRUE(client) << client.error().message;
  const auto nobody = NodePods::Find(*std::move(client), namespace_, "toolkit", "", {});
  ASSERT_FALSE(nobody);
  EXPECT_TRUE(KeepsConfiguration(base::Fail(nobody.error()))) << nobody.error().ToString();
}

TEST_F(NodePodsTest, AStopEndsTheTries) {
  AddPod("plugin", "here", "nvidia", "Pending");
  const auto pods = Pods();
  const io::StopSource source;
  std::jthread person([&] {
    AwaitMarks("plugin", 1);
    source.Stop();
  });
  const auto count = pods.RetryWaiting(kOneTry, source.token());
  ASSERT_FALSE(count);
  EXPECT_EQ(count.error().code, base::Code::kCancelled);
}

}  // namespace
}  // namespace pitcrew::node::toolkit
