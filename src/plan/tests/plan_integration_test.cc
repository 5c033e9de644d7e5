// `pitcrew plan --live` against a real API server and the operator itself: what is planned is what
// the operator then does, and afterwards nothing is left to do.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <thread>

#include "api/labels.h"
#include "apiserver/api_server.h"
#include "base/file.h"
#include "base/strings.h"
#include "codec/yaml.h"
#include "desired/cluster_kinds.h"
#include "desired/owned_object.h"
#include "desired/policy_view.h"
#include "operator/runner.h"
#include "plan/budgets.h"
#include "plan/run.h"
#include "tests/support/eventually.h"
#include "tests/support/folders.h"
#include "tests/support/patience.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::plan {
namespace {

using codec::Json;
using pitcrew::testing::ApiServer;
using test_support::Eventually;
using ::testing::HasSubstr;

constexpr kube::WriteOptions kAdmin{.field_manager = "test", .subresource = {}};
constexpr const char* kNamespace = "gpu-operator";

constexpr const char* kPolicy = R"(
apiVersion: nvidia.com/v1
kind: ClusterPolicy
metadata: {name: cluster-policy}
spec:
  daemonsets: {}
  dcgm: {}
  dcgmExporter: {}
  devicePlugin: {}
  driver: {secretEnv: driver-secret}
  gfd: {}
  nodeStatusExporter: {enabled: true}
  operator: {}
  psa: {enabled: true}
  toolkit: {}
)";

constexpr const char* kFormerDriver = R"(
metadata:
  name: nvidia-driver-daemonset
  namespace: gpu-operator
  labels: {app.kubernetes.io/component: nvidia-driver}
spec:
  selector: {matchLabels: {app: nvidia-driver-daemonset}}
  template:
    metadata: {labels: {app: nvidia-driver-daemonset}}
    spec:
      nodeSelector: {nvidia.com/gpu.deploy.driver: "true"}
      containers: [{name: nvidia-driver-ctr, image: former}]
)";

// The last one is on a node without a driver.
constexpr const char* kPods[] = {R"(
metadata:
  name: trains
  namespace: ml
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: o, uid: o, controller: true}]
spec: {nodeName: gpu-1, containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 1}}}]}
)",
                                 R"(
metadata: {name: waits, namespace: ml, labels: {tier: batch}}
spec: {nodeName: gpu-2, containers: [{name: c, image: i}]}
)",
                                 R"(
metadata: {name: elsewhere, namespace: ml, labels: {tier: batch}}
spec: {nodeName: cpu-1, containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 1}}}]}
)"};

constexpr const char* kBudget =
    "{metadata: {name: all, namespace: ml}, spec: {maxUnavailable: 1, selector: {}}}";

desired::DefaultImages Images() {
  desired::DefaultImages images;
  for (const auto variable : desired::Operands().image_variables()) {
    images[std::string(variable)] = fmt::format("registry.test/{}:v1", variable);
  }
  return images;
}

class RunningOperator {
 public:
  RunningOperator() {
    thread_ = std::thread([this] {
      gpu_operator::RunnerOptions options;
      options.operator_namespace = kNamespace;
      options.images = Images();
      const auto status = gpu_operator::RunControllers(ApiServer::Shared().MakeClient(), options,
                                                       metrics_, source_.token());
      EXPECT_TRUE(status) << status.error().ToString();
    });
  }
  ~RunningOperator() {
    source_.Stop();
    thread_.join();
  }
  RunningOperator(const RunningOperator&) = delete;
  RunningOperator& operator=(const RunningOperator&) = delete;

 private:
  gpu_operator::Metrics metrics_;
  io::StopSource source_;
  std::thread thread_;
};

class PlanTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const auto client = ApiServer::Shared().MakeClient();
    const auto text = base::ReadFile(test_support::SourceFolder().string() +
                                     "/deploy/chart/gpu-operator/crds/"
                                     "nvidia.com_clusterpolicies.yaml");
    ASSERT_TRUE(text) << text.error().ToString();
    ASSERT_TRUE(client->Apply(kube::kCustomResourceDefinitions, *codec::ParseYaml(*text), kAdmin));
    ASSERT_TRUE(
        Eventually([&] { return client->List(desired::kClusterPolicies, "").has_value(); }));
    Create(kube::kNamespaces, {{"metadata", {{"name", kNamespace}}}});
    Create(kube::kSecrets, {{"metadata", {{"name", "driver-secret"}, {"namespace", kNamespace}}}});
    for (const char* name : {"gpu-1", "gpu-2"}) {
      Create(kube::kNodes,
             {{"metadata",
               {{"name", name},
                {"labels",
                 {{"feature.node.kubernetes.io/pci-10de.present", "true"},
                  {"feature.node.kubernetes.io/system-os_release.ID", "ubuntu"},
                  {"feature.node.kubernetes.io/system-os_release.VERSION_ID", "24.04"}}}}}});
    }
    Create(kube::kNodes, {{"metadata", {{"name", "cpu-1"}}}});
    MakeReader();
  }

  static void Create(const kube::ResourceKind& kind, const Json& object) {
    const auto created = ApiServer::Shared().MakeClient()->Create(kind, object, kAdmin);
    ASSERT_TRUE(created) << created.error().ToString();
  }

  // The stranger may read what a plan needs, and change nothing.
  static void MakeReader() {
    Create(kube::kClusterRoles,
           *codec::ParseYaml("{metadata: {name: plan-reader}, rules: [{apiGroups: ['*'], "
                             "resources: ['*'], verbs: [get, list]}]}"));
    Create(kube::kClusterRoleBindings,
           *codec::ParseYaml("{metadata: {name: plan-reader}, roleRef: {apiGroup: "
                             "rbac.authorization.k8s.io, kind: ClusterRole, name: plan-reader}, "
                             "subjects: [{kind: User, name: stranger, apiGroup: "
                             "rbac.authorization.k8s.io}]}"));
  }

  void SetUp() override {
    std::string text = *base::ReadFile(ApiServer::Shared().kubeconfig());
    const std::string& admin = ApiServer::Shared().admin_token();
    for (auto place = text.find(admin); place != std::string::npos; place = text.find(admin)) {
      text.replace(place, admin.size(), ApiServer::Shared().stranger_token());
    }
    kubeconfig_ = folder_.Write("kubeconfig", text).string();
    policy_ = folder_.Write("policy.yaml", kPolicy).string();
  }

  [[nodiscard]] Answer Plan(Format format, const std::string& policy_file,
                            bool uninstall = false) const {
    Arguments arguments;
    arguments.policy_file = policy_file;
    arguments.live = true;
    arguments.connection.kubeconfig = kubeconfig_;
    arguments.format = format;
    arguments.uninstall = uninstall;
    arguments.options.operator_namespace = kNamespace;
    arguments.options.images = Images();
    return plan::Run(arguments);
  }

  // Objects of the operator as they stand, without what the server adds, by kind and name.
  static std::map<std::string, Json> Standing() {
    const auto client = ApiServer::Shared().MakeClient();
    std::map<std::string, Json> objects;
    for (const kube::ResourceKind& kind : desired::OwnedKinds()) {
      const auto listed = client->List(
          kind, "", {.label_selector = std::string(api::kStateLabel), .field_selector = {}});
      if (!listed) continue;  // kinds that this server does not serve
      for (const Json& object : listed->items) {
        objects[fmt::format("{} {}", kind.kind, kube::KeyOf(object).name)] = object;
      }
    }
    return objects;
  }

  // What the stranger may do from now on.
  static void Grant(const std::string& rules) {
    ASSERT_TRUE(ApiServer::Shared().MakeClient()->Patch(
        kube::kClusterRoles, {.namespace_name = "", .name = "plan-reader"}, kube::PatchType::kMerge,
        *codec::ParseYaml(rules), kAdmin));
  }
  // On two nodes that have another driver: one is evicted, one waited for; and a pod elsewhere.
  static void MakePodsThatWouldLeave() {
    const auto client = ApiServer::Shared().MakeClient();
    const Json labels = {{api::kGpuPresent, "true"}, {api::kDeployDriver, "true"}};
    for (const char* name : {"gpu-1", "gpu-2"}) {
      ASSERT_TRUE(client->Patch(kube::kNodes, {.namespace_name = "", .name = name},
                                kube::PatchType::kMerge, {{"metadata", {{"labels", labels}}}},
                                kAdmin));
    }
    // Nobody collects what an operator of another test has made.
    const Json driver = *codec::ParseYaml(kFormerDriver);
    const auto former = client->Delete(kube::kDaemonSets, kube::KeyOf(driver));
    ASSERT_TRUE(former || former.error().code == base::Code::kNotFound);
    Create(kube::kDaemonSets, driver);
    Create(kube::kNamespaces, {{"metadata", {{"name", "ml"}}}});
    for (const char* pod : kPods) Create(kube::kPods, *codec::ParseYaml(pod));
    ASSERT_TRUE(client->Patch(kube::kPods, {.namespace_name = "ml", .name = "trains"},
                              kube::PatchType::kMerge, {{"status", {{"phase", "Running"}}}},
                              {.field_manager = "admin", .subresource = "status"}));
    Create(kDisruptionBudgets, *codec::ParseYaml(kBudget));
  }
  static void RemovePodsThatWouldLeave() {
    const auto client = ApiServer::Shared().MakeClient();
    for (const char* pod : kPods) {
      ASSERT_TRUE(client->Delete(kube::kPods, kube::KeyOf(*codec::ParseYaml(pod))));
    }
    ASSERT_TRUE(client->Delete(kDisruptionBudgets, kube::KeyOf(*codec::ParseYaml(kBudget))));
    ASSERT_TRUE(client->Delete(kube::kDaemonSets, kube::KeyOf(*codec::ParseYaml(kFormerDriver))));
  }

  test_support::TemporaryFolder folder_;
  std::string kubeconfig_;
  std::string policy_;
};

TEST_F(PlanTest, WhatIsPlannedIsWhatTheOperatorDoes) {
  const auto client = ApiServer::Shared().MakeClient();
  const kube::ObjectKey policy_key{.namespace_name = "", .name = "cluster-policy"};

  // Before there is a policy, from a file.
  const Answer fresh = Plan(Format::kDiff, policy_);
  EXPECT_EQ(fresh.status, 3) << fresh.errors;
  EXPECT_THAT(fresh.output, HasSubstr("+ create DaemonSet gpu-operator/nvidia-driver-daemonset"));
  EXPECT_THAT(fresh.output, HasSubstr("~ change Namespace gpu-operator"));
  EXPECT_EQ(fresh.errors, "");

  // With the stored one, every object as it will stand.
  Create(desired::kClusterPolicies, *codec::ParseYaml(kPolicy));
  const Answer planned = Plan(Format::kYaml, "");
  ASSERT_EQ(planned.status, 3) << planned.errors;
  const auto documents = codec::ParseYamlStream(planned.output);
  ASSERT_TRUE(documents) << documents.error().ToString();
  // Nothing was written by any of it.
  EXPECT_TRUE(Standing().empty());

  const RunningOperator running;
  Answer after;
  ASSERT_TRUE(Eventually([&] {
    after = Plan(Format::kDiff, "");
    return after.status == 0;
  })) << after.output
      << after.errors;
  auto standing = Standing();
  for (const Json& document : *documents) {
    const std::string kind = codec::FindString(document, {"kind"});
    const kube::ObjectKey key = kube::KeyOf(document);
    if (kind == "Node" || kind == "Namespace") {
      const auto live = client->Get(kind == "Node" ? kube::kNodes : kube::kNamespaces, key);
      ASSERT_TRUE(live) << live.error().ToString();
      for (const char* member : {"labels", "annotations"}) {
        const Json* stands = codec::Find(*live, {"metadata", member});
        const Json* planned_values = codec::Find(document, {"metadata", member});
        EXPECT_EQ(stands == nullptr ? Json() : *stands,
                  planned_values == nullptr ? Json() : *planned_values)
            << key.name;
      }
      continue;
    }
    const auto found = standing.find(fmt::format("{} {}", kind, key.name));
    ASSERT_NE(found, standing.end()) << kind << " " << key.name;
    EXPECT_TRUE(desired::Covers(found->second, document)) << kind << " " << key.name;
    standing.erase(found);
  }
  // And the operator made nothing that was not planned.
  for (const auto& [name, object] : standing) ADD_FAILURE() << name << " was not planned";

  // A change of the policy, with its reason.
  folder_.Write("policy.yaml", std::string(kPolicy) + "  migManager: {enabled: false}\n");
  const Answer changed = Plan(Format::kDiff, policy_);
  EXPECT_EQ(changed.status, 3);
  EXPECT_THAT(changed.output, HasSubstr("- delete DaemonSet gpu-operator/nvidia-mig-manager  "
                                        "(state-mig-manager; spec.migManager.enabled: false)"));
  EXPECT_THAT(changed.output, HasSubstr("Plan: 0 to create, 0 to change, 9 to delete;"));

  // What somebody else changed is put right.
  ASSERT_TRUE(client->Patch(kube::kClusterRoles, {.namespace_name = "", .name = "nvidia-driver"},
                            kube::PatchType::kMerge, {{"rules", Json::array()}}, kAdmin));
  // Leaving names everything.
  const Answer leaving = Plan(Format::kTable, "", /*uninstall=*/true);
  EXPECT_EQ(leaving.status, 3) << leaving.errors;
  for (const auto& [name, object] : Standing()) {
    EXPECT_THAT(leaving.output, HasSubstr(kube::KeyOf(object).name));
  }
  ASSERT_TRUE(client->Delete(desired::kClusterPolicies, policy_key));
}

// Pods of nodes whose driver would be exchanged are read when there are such nodes, with the rights
// of whoever asks.
TEST_F(PlanTest, PodsThatWouldLeaveAreNamed) {
  MakePodsThatWouldLeave();
  const std::string policy =
      folder_
          .Write("upgraded.yaml", base::ReplaceAll(kPolicy, "driver: {",
                                                   "driver: {upgradePolicy: {autoUpgrade: "
                                                   "true, waitForCompletion: {podSelector: "
                                                   "'tier=batch'}}, "))
          .string();
  Grant("{rules: [{apiGroups: ['*'], resources: ['*'], verbs: [get, list]}]}");
  Answer answer;
  ASSERT_TRUE(Eventually([&] {
    answer = Plan(Format::kDiff, policy);
    return answer.output.find("! upgrade Node gpu-2") != std::string::npos;
  })) << answer.output
      << answer.errors;
  EXPECT_EQ(answer.status, 3);
  EXPECT_THAT(answer.output,
              HasSubstr("! upgrade Node gpu-1  (driver; is cordoned)\n    - Pod ml/trains: is "
                        "evicted\n    ! Pod ml/trains: PodDisruptionBudget ml/all has not been "
                        "counted yet, and allows no eviction\n! upgrade Node gpu-2  (driver; is "
                        "cordoned)\n    . Pod "
                        "ml/waits: is waited for\n"));
  EXPECT_THAT(answer.output, HasSubstr("driver: evicts 1 pod on 1 node; waits for 1 pod on 1 node "
                                       "to end; disruption budgets would keep 1 of these pods"));

  // Without the right to list budgets it says so, and names the pods all the same.
  Grant(
      "{rules: [{apiGroups: ['', nvidia.com, apps, rbac.authorization.k8s.io, node.k8s.io, "
      "apiextensions.k8s.io], resources: ['*'], verbs: [get, list]}]}");
  ASSERT_TRUE(Eventually([&] {
    answer = Plan(Format::kDiff, policy);
    return answer.output.find("which of these pods disruption budgets would keep is not known: ") !=
           std::string::npos;
  })) << answer.output;
  EXPECT_THAT(answer.output, HasSubstr("cannot list resource \"poddisruptionbudgets\""));
  EXPECT_THAT(answer.output, HasSubstr("- Pod ml/trains: is evicted"));
  EXPECT_EQ(answer.status, 3);

  // Without the right to list pods it says so, and plans all else.
  Grant(
      "{rules: [{apiGroups: ['', nvidia.com, apps, rbac.authorization.k8s.io, node.k8s.io, "
      "apiextensions.k8s.io], resources: [nodes, clusterpolicies, gpuclusters, nvidiadrivers, "
      "daemonsets, configmaps, namespaces, secrets, services, serviceaccounts, "
      "customresourcedefinitions, roles, rolebindings, clusterroles, clusterrolebindings, "
      "runtimeclasses], verbs: [get, list]}]}");
  ASSERT_TRUE(Eventually([&] {
    answer = Plan(Format::kDiff, policy);
    return answer.errors.find("which pods these are is not known") != std::string::npos;
  })) << answer.errors;
  EXPECT_THAT(answer.errors, HasSubstr("forbidden"));
  EXPECT_EQ(answer.status, 3);
  RemovePodsThatWouldLeave();
}

// What may not be read is an error that says so, not a plan that creates everything.
TEST_F(PlanTest, UnreadableKindsAreErrors) {
  const auto client = ApiServer::Shared().MakeClient();
  const kube::ObjectKey role{.namespace_name = "", .name = "plan-reader"};
  ASSERT_TRUE(client->Patch(
      kube::kClusterRoles, role, kube::PatchType::kMerge,
      *codec::ParseYaml(
          "{rules: [{apiGroups: ['*'], resources: [nodes, clusterpolicies, gpuclusters, "
          "configmaps, namespaces, secrets, services, serviceaccounts, "
          "customresourcedefinitions, roles, rolebindings, clusterroles, "
          "clusterrolebindings, runtimeclasses], verbs: [get, list]}]}"),
      kAdmin));
  Answer answer;
  // The server's view of the role follows its change.
  ASSERT_TRUE(Eventually([&] {
    answer = Plan(Format::kTable, policy_);
    return answer.status == 1;
  })) << answer.output;
  EXPECT_THAT(answer.errors, HasSubstr("error: daemonsets: "));
  EXPECT_THAT(answer.errors, HasSubstr("forbidden"));
  EXPECT_THAT(answer.output, HasSubstr("unknown    DaemonSet"));
}

TEST_F(PlanTest, NoServerIsAnErrorOfTheServer) {
  Arguments arguments;
  arguments.live = true;
  arguments.connection.kubeconfig = (folder_.path() / "missing").string();
  arguments.options.operator_namespace = kNamespace;
  const Answer answer = plan::Run(arguments);
  EXPECT_EQ(answer.status, 1);
  EXPECT_THAT(answer.errors, HasSubstr("missing"));
}

}  // namespace
}  // namespace pitcrew::plan
