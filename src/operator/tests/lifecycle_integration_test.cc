// Definitions that come, go and fall behind; and how the operator leaves a cluster.
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "api/labels.h"
#include "apiserver/interposed_server.h"
#include "base/file.h"
#include "base/strings.h"
#include "kube/await.h"
#include "operator/command.h"
#include "operator/definitions/definitions.h"
#include "operator/uninstall/uninstall.h"
#include "support_operator.h"
#include "tests/support/patience.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::gpu_operator::testing {
namespace {

using ::testing::HasSubstr;

const ObjectKey kDefinition{.namespace_name = "", .name = "clusterpolicies.nvidia.com"};

// How many lines of the log say that this ServiceAccount was deleted.
std::ptrdiff_t DeletionsToldOf(const std::string& log, const ObjectKey& account) {
  return std::ranges::count_if(base::Split(log, '\n'), [&](const std::string& line) {
    return line.contains("deleted") && line.contains("kind=ServiceAccount ") &&
           line.ends_with("name=" + account.ToString());
  });
}

class LifecycleTest : public OperatorTest {
 protected:
  void TearDown() override {
    // The server is shared.
    const Json own = OwnDefinitions()->front();
    ASSERT_TRUE(EnsureDefinition(*client_, own, {.force = true}, {}));
    ASSERT_TRUE(AwaitEstablished(client_, kDefinition.name, test_support::kPatience, {}));
    ASSERT_TRUE(
        Eventually([&] { return client_->List(desired::kClusterPolicies, "").has_value(); }));
    OperatorTest::TearDown();
  }
  // Changes the served schema's spec.
  void ChangeSchema(const std::function<void(Json& properties)>& change) {
    auto served = client_->Get(kube::kCustomResourceDefinitions, kDefinition);
    ASSERT_TRUE(served);
    change((*served)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
                    ["properties"]);
    // The server's own controllers write its status; conflicts with them do not matter.
    const auto changed =
        client_->Patch(kube::kCustomResourceDefinitions, kDefinition, kube::PatchType::kMerge,
                       {{"spec", {{"versions", (*served)["spec"]["versions"]}}}}, kAdmin);
    ASSERT_TRUE(changed) << changed.error().ToString();
  }
  [[nodiscard]] bool Serves(const std::string& field) const {
    const auto served = client_->Get(kube::kCustomResourceDefinitions, kDefinition);
    return served && (*served)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
                              ["spec"]["properties"]
                                  .contains(field);
  }
  [[nodiscard]] std::string DefinitionUid() const {
    const auto served = client_->Get(kube::kCustomResourceDefinitions, kDefinition);
    return served ? codec::FindString(*served, {"metadata", "uid"}) : "";
  }
  [[nodiscard]] std::size_t LabelledObjects() const {
    std::size_t count = 0;
    for (const kube::ResourceKind* kind :
         {&kube::kDaemonSets, &kube::kServiceAccounts, &kube::kClusterRoles, &kube::kRuntimeClasses,
          &kube::kConfigMaps}) {
      const auto listed = client_->List(*kind, kind->namespaced ? name_space_ : "",
                                        {.label_selector = "nvidia.com/gpu-operator.state"});
      count += listed ? listed->items.size() : 1;
    }
    return count;
  }
};

TEST_F(LifecycleTest, AnOlderDefinitionIsUpgradedAndANewerOneLeftAlone) {
  ChangeSchema([](Json& properties) { properties.erase("gds"); });
  {
    const RunningOperator running(name_space_);
    EXPECT_TRUE(Eventually([&] { return Serves("gds"); }));
  }
  ChangeSchema([](Json& properties) { properties["future"] = {{"type", "object"}}; });
  const auto left = EnsureDefinition(*client_, OwnDefinitions()->front(), {}, {});
  ASSERT_TRUE(left);
  EXPECT_EQ(*left, DefinitionChange::kLeftNewer);
  EXPECT_TRUE(Serves("future"));
}

// Another product's schema, or that of a branch: it is replaced by whoever asks for it alone.
TEST_F(LifecycleTest, ADivergedDefinitionIsReplacedOnlyWhenAskedFor) {
  const auto diverge = [&] {
    ChangeSchema([](Json& properties) {
      properties.erase("gds");
      properties["future"] = {{"type", "object"}};
    });
  };
  const Json own = OwnDefinitions()->front();
  diverge();
  EXPECT_EQ(*EnsureDefinition(*client_, own, {}, {}), DefinitionChange::kLeftDiverged);
  EXPECT_FALSE(Serves("gds"));
  EXPECT_EQ(*EnsureDefinition(*client_, own, {.replace_diverged = true}, {}),
            DefinitionChange::kUpgraded);
  EXPECT_TRUE(Serves("gds"));
  diverge();
  EXPECT_EQ(*EnsureDefinition(*client_, own, {.force = true}, {}), DefinitionChange::kUpgraded);
  EXPECT_TRUE(Serves("gds"));
  EXPECT_EQ(*EnsureDefinition(*client_, own, {}, {}), DefinitionChange::kNone);
}

// "A schema older than the binary is a condition, not a silent loss."
TEST_F(LifecycleTest, AnOlderDefinitionThatIsNotManagedIsACondition) {
  ChangeSchema([](Json& properties) { properties.erase("gds"); });
  CreatePolicy("cluster-policy");
  const RunningOperator running(name_space_,
                                [](RunnerOptions& options) { options.manage_definitions = false; });
  ASSERT_TRUE(Eventually([&] {
    return Condition("cluster-policy", "SchemaReady").starts_with("False SchemaOutdated");
  }));
  EXPECT_THAT(Condition("cluster-policy", "SchemaReady"), HasSubstr("spec.gds"));
  EXPECT_FALSE(Serves("gds"));
  ASSERT_TRUE(EnsureDefinition(*client_, OwnDefinitions()->front(), {}, {}));
  EXPECT_TRUE(Eventually([&] { return Condition("cluster-policy", "SchemaReady").empty(); }));
}

// A definition that goes takes its policies along; the operator lives on, deletes nothing itself,
// and brings it back, unless it was removed on purpose.
TEST_F(LifecycleTest, ADeletedDefinitionComesBack) {
  CreateGpuNode("gpu-1");
  CreatePolicy("cluster-policy");
  const RunningOperator running(name_space_);
  ASSERT_TRUE(ReachesReady("cluster-policy"));
  const std::string before = DefinitionUid();
  ASSERT_TRUE(client_->Delete(kube::kCustomResourceDefinitions, kDefinition));
  ASSERT_TRUE(Eventually([&] { return !DefinitionUid().empty() && DefinitionUid() != before; }));
  // There is no garbage collector here: what is gone, the operator deleted.
  EXPECT_TRUE(Exists(kube::kDaemonSets, Own("nvidia-device-plugin-daemonset")));
  // For a moment the server may still serve the kind of the definition that is gone.
  Json policy = desired::testing::MinimalPolicy(Json::object());
  policy["metadata"] = {{"name", "cluster-policy"}};
  ASSERT_TRUE(Eventually(
      [&] { return client_->Create(desired::kClusterPolicies, policy, kAdmin).has_value(); }));
  EXPECT_TRUE(ReachesReady("cluster-policy"));

  const auto removed = RemoveDefinition(client_, kDefinition.name, std::chrono::minutes(1), {});
  ASSERT_TRUE(removed) << removed.error().ToString();
  EXPECT_TRUE(*removed);
  EXPECT_EQ(DefinitionUid(), "");
  // The last policy's deletion has been seen, and its definition's is seen with it.
  ASSERT_TRUE(Eventually([&] { return Label("gpu-1", "nvidia.com/gpu.present") == "(none)"; }));
  EXPECT_EQ(DefinitionUid(), "");
}

// Somebody's finalizer on a policy holds its definition, which is no reason to wait for ever.
TEST_F(LifecycleTest, ADefinitionThatIsHeldIsToldApart) {
  CreatePolicy("cluster-policy");
  const auto finalizers = [&](codec::Json value) {
    return client_
        ->Patch(desired::kClusterPolicies, Cluster("cluster-policy"), kube::PatchType::kMerge,
                {{"metadata", {{"finalizers", std::move(value)}}}})
        .has_value();
  };
  ASSERT_TRUE(finalizers({"example.com/held"}));
  const auto held = RemoveDefinition(client_, kDefinition.name, std::chrono::milliseconds(1), {});
  ASSERT_TRUE(held) << held.error().ToString();
  EXPECT_FALSE(*held);
  ASSERT_TRUE(finalizers(nullptr));
  const auto gone = RemoveDefinition(client_, kDefinition.name, std::chrono::minutes(1), {});
  ASSERT_TRUE(gone) << gone.error().ToString();
  EXPECT_TRUE(*gone);
}

// What the chart's hook runs; here where no operator runs any more, and no garbage collector.
TEST_F(LifecycleTest, UninstallTakesEverythingAlong) {
  RecordProperty("holds", "driver-lifecycle.md #58, virtualisation-and-olm.md #61");
  // Of Kata's own installation, by a handler of the same kind as the operator's.
  const ObjectKey kata = Cluster("kata-qemu-nvidia-gpu");
  Create(kube::kRuntimeClasses,
         {{"metadata", {{"name", kata.name}}}, {"handler", "kata-qemu-nvidia-gpu"}});
  CreateGpuNode("gpu-1");
  CreatePolicy("cluster-policy", "{psa: {enabled: true}}");
  {
    const RunningOperator running(name_space_);
    ASSERT_TRUE(ReachesReady("cluster-policy"));
  }
  ASSERT_GT(LabelledObjects(), 20U);
  Merge(kube::kNodes, Cluster("gpu-1"),
        {{"metadata", {{"labels", {{std::string(api::kUpgradeState), "upgrade-done"}}}}}});
  const UninstallOptions options{.operator_namespace = name_space_, .policies = {"cluster-policy"}};
  const auto left = Uninstall(client_, options, {});
  ASSERT_TRUE(left) << left.error().ToString();
  EXPECT_EQ(LabelledObjects(), 0U);
  EXPECT_FALSE(Exists(desired::kClusterPolicies, Cluster("cluster-policy")));
  const auto node = client_->Get(kube::kNodes, Cluster("gpu-1"));
  ASSERT_TRUE(node);
  for (const auto& [key, value] : (*node)["metadata"]["labels"].items()) {
    EXPECT_FALSE(key.starts_with("nvidia.com/gpu.")) << key;
  }
  EXPECT_EQ(Label("gpu-1", std::string(api::kUpgradeState)), "(none)");
  EXPECT_TRUE(Exists(kube::kRuntimeClasses, kata));
  EXPECT_TRUE(client_->Delete(kube::kRuntimeClasses, kata));
  const auto name_space = client_->Get(kube::kNamespaces, Cluster(name_space_));
  ASSERT_TRUE(name_space);
  EXPECT_EQ(codec::Find(*name_space, {"metadata", "labels", "pod-security.kubernetes.io/enforce"}),
            nullptr);
  // May be repeated.
  EXPECT_TRUE(Uninstall(client_, options, {}));
}

// The same while the operator runs, which must not put anything back.
TEST_F(LifecycleTest, UninstallBesideARunningOperator) {
  CreateGpuNode("gpu-1");
  CreatePolicy("cluster-policy");
  const RunningOperator running(name_space_);
  ASSERT_TRUE(ReachesReady("cluster-policy"));
  ASSERT_TRUE(Uninstall(
      client_, {.operator_namespace = name_space_, .policies = {}, .all_policies = true}, {}));
  EXPECT_EQ(LabelledObjects(), 0U);
  EXPECT_EQ(Label("gpu-1", "nvidia.com/gpu.present"), "(none)");
}

// An object that somebody else has deleted, and that another's finalizer holds, is waited for; it
// is not deleted once more, and keeps none of the others.
TEST_F(LifecycleTest, UninstallWaitsForWhatOthersHaveDeletedAndHold) {
  CreateGpuNode("gpu-1");
  CreatePolicy("cluster-policy");
  {
    const RunningOperator running(name_space_);
    ASSERT_TRUE(ReachesReady("cluster-policy"));
  }
  const auto accounts = client_->List(kube::kServiceAccounts, name_space_,
                                      {.label_selector = "nvidia.com/gpu-operator.state"});
  ASSERT_TRUE(accounts);
  ASSERT_GT(accounts->items.size(), 2U);
  const ObjectKey held = kube::KeyOf(accounts->items.front());
  const auto hold = [&](const Json& by) {
    Merge(kube::kServiceAccounts, held, {{"metadata", {{"finalizers", by}}}});
  };
  hold({"example.com/held"});
  ASSERT_TRUE(client_->Delete(kube::kServiceAccounts, held));
  const auto deletions = [&] {
    std::uint64_t sent = 0;
    for (const auto& [what, count] : client_->request_counts()) {
      if (what.first == "delete") sent += count;
    }
    return sent;
  };
  const auto before = deletions();
  ::testing::internal::CaptureStderr();
  base::Status left;
  std::thread uninstall([&] {
    left =
        Uninstall(client_, {.operator_namespace = name_space_, .policies = {"cluster-policy"}}, {});
  });
  EXPECT_TRUE(Eventually([&] {
    const auto others = client_->List(kube::kServiceAccounts, name_space_,
                                      {.label_selector = "nvidia.com/gpu-operator.state"});
    return others && others->items.size() == 1;
  }));
  hold(nullptr);
  uninstall.join();
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(left) << left.error().ToString();
  EXPECT_EQ(LabelledObjects(), 0U);
  EXPECT_EQ(DeletionsToldOf(log, held), 0) << log;
  for (std::size_t i = 1; i < accounts->items.size(); ++i) {
    EXPECT_EQ(DeletionsToldOf(log, kube::KeyOf(accounts->items[i])), 1) << log;
  }
  const auto all_told = std::ranges::count_if(base::Split(log, '\n'), [](const std::string& line) {
    return line.contains("deleted kind=");
  });
  EXPECT_EQ(deletions() - before, all_told + 1) << "each object once, and the policy";
}

// Somebody deletes one object just before the uninstall does, and puts another one into the place
// of a second: that is as good, is no deletion of the uninstall, and what is new stays.
TEST_F(LifecycleTest, UninstallTellsOfNoDeletionThatSomebodyElseWasFasterWith) {
  CreateGpuNode("gpu-1");
  CreatePolicy("cluster-policy");
  {
    const RunningOperator running(name_space_);
    ASSERT_TRUE(ReachesReady("cluster-policy"));
  }
  const auto accounts = client_->List(kube::kServiceAccounts, name_space_,
                                      {.label_selector = "nvidia.com/gpu-operator.state"});
  ASSERT_TRUE(accounts);
  ASSERT_GT(accounts->items.size(), 2U);
  const ObjectKey gone = kube::KeyOf(accounts->items[0]);
  const ObjectKey replaced = kube::KeyOf(accounts->items[1]);
  std::atomic<int> faster = 0;
  const pitcrew::testing::InterposedServer server(
      [&](const auto& request, auto&, const io::StopToken&) {
        if (request.method != "DELETE") return false;
        for (const ObjectKey& key : {gone, replaced}) {
          if (!request.path.ends_with("/serviceaccounts/" + key.name)) continue;
          ++faster;
          EXPECT_TRUE(client_->Delete(kube::kServiceAccounts, key));
          if (key == replaced) {
            Create(kube::kServiceAccounts,
                   {{"metadata", {{"name", key.name}, {"namespace", key.namespace_name}}}});
          }
        }
        return false;  // and the API server says of the uninstall's what is so: 404, 409
      });
  ::testing::internal::CaptureStderr();
  const auto left = Uninstall(
      server.MakeClient(), {.operator_namespace = name_space_, .policies = {"cluster-policy"}}, {});
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(left) << left.error().ToString();
  EXPECT_EQ(faster, 2) << "each is asked for once";
  EXPECT_EQ(LabelledObjects(), 0U);
  EXPECT_TRUE(Exists(kube::kServiceAccounts, replaced));
  for (std::size_t i = 0; i < accounts->items.size(); ++i) {
    EXPECT_EQ(DeletionsToldOf(log, kube::KeyOf(accounts->items[i])), i < 2 ? 0 : 1) << log;
  }
}

// The hook of the chart: it is done when the object is not there any more, and says what keeps it.
TEST_F(LifecycleTest, CleanupOfGpuClustersEndsWhenTheObjectIsGone) {
  const auto cleanup = [](const std::string& kubeconfig) {
    std::vector<std::string> words = {"cleanup-gpuclusters", "--gpucluster-name", "gpu-cluster",
                                      "--kubeconfig", kubeconfig};
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    return CleanupGpuClustersCommand(static_cast<int>(arguments.size()), arguments.data());
  };
  const std::string administrator = ApiServer::Shared().kubeconfig().string();
  EXPECT_EQ(cleanup(administrator), 0) << "nobody has defined them";
  DefineGpuClusters();
  const ObjectKey key = Cluster("gpu-cluster");
  ASSERT_TRUE(Eventually([&] {
    return client_
        ->Create(desired::kGpuClusters,
                 {{"metadata", {{"name", key.name}, {"finalizers", {"example.com/held"}}}}}, kAdmin)
        .has_value();
  }));
  const test_support::TemporaryFolder folder;
  std::string strangers = *base::ReadFile(administrator);
  const std::string& token = ApiServer::Shared().admin_token();
  ASSERT_TRUE(strangers.contains(token));
  strangers.replace(strangers.find(token), token.size(), ApiServer::Shared().stranger_token());
  EXPECT_NE(cleanup(folder.Write("kubeconfig", strangers).string()), 0) << "it may not delete it";
  EXPECT_TRUE(Exists(desired::kGpuClusters, key));
  std::atomic<bool> ended = false;
  std::thread hook([&] {
    EXPECT_EQ(cleanup(administrator), 0);
    ended = true;
  });
  EXPECT_TRUE(Eventually([&] {
    const auto object = client_->Get(desired::kGpuClusters, key);
    return object && codec::Find(*object, {"metadata", "deletionTimestamp"}) != nullptr;
  }));
  EXPECT_FALSE(ended) << "a finalizer holds the object";
  Merge(desired::kGpuClusters, key, {{"metadata", {{"finalizers", nullptr}}}});
  hook.join();
  EXPECT_FALSE(Exists(desired::kGpuClusters, key));
  EXPECT_EQ(cleanup(administrator), 0) << "there is none any more";
  EXPECT_TRUE(client_->Delete(kube::kCustomResourceDefinitions, Cluster("gpuclusters.nvidia.com")));
}

// Another policy is somebody else's decision: the nodes go on for it.
TEST_F(LifecycleTest, UninstallLeavesTheNodesToAnotherPolicy) {
  CreateGpuNode("gpu-1");
  CreatePolicy("cluster-policy");
  CreatePolicy("other");
  {
    const RunningOperator running(name_space_);
    ASSERT_TRUE(ReachesReady("cluster-policy"));
  }
  ASSERT_TRUE(
      Uninstall(client_, {.operator_namespace = name_space_, .policies = {"cluster-policy"}}, {}));
  EXPECT_EQ(LabelledObjects(), 0U);
  EXPECT_TRUE(Exists(desired::kClusterPolicies, Cluster("other")));
  EXPECT_EQ(Label("gpu-1", "nvidia.com/gpu.present"), "true");
}

}  // namespace
}  // namespace pitcrew::gpu_operator::testing
