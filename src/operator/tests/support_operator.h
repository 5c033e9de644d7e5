// The operator's controllers against a real kube-apiserver: no kubelet, no controller-manager, so
// the tests write what those would write.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "apiserver/api_server.h"
#include "codec/yaml.h"
#include "desired/cluster_kinds.h"
#include "desired/testing/render_cluster.h"
#include "operator/runner.h"
#include "operator/watches/world.h"
#include "tests/support/eventually.h"
#include "tests/support/patience.h"

namespace pitcrew::gpu_operator::testing {

using codec::Json;
using kube::ObjectKey;
using pitcrew::testing::ApiServer;
using test_support::Eventually;

inline constexpr kube::WriteOptions kAdmin{.field_manager = "test", .subresource = {}};

// The spec of a policy that leaves drivers to NVIDIADrivers.
inline constexpr const char* kDelegated = "{driver: {useNvidiaDriverCRD: true}}";

// The controllers on a thread, with a client of their own whose requests can be counted.
class RunningOperator {
 public:
  explicit RunningOperator(const std::string& name_space,
                           const std::function<void(RunnerOptions&)>& change = {})
      : client_(ApiServer::Shared().MakeClient()) {
    RunnerOptions options{.operator_namespace = name_space,
                          .images = desired::testing::TestImages()};
    options.removal_grace = std::chrono::milliseconds(300);
    options.progress_interval = std::chrono::milliseconds(100);
    if (change) change(options);
    thread_ = std::thread([this, options] {
      const auto status = RunControllers(client_, options, metrics_, source_.token());
      EXPECT_TRUE(status) << status.error().ToString();
    });
  }
  ~RunningOperator() { Stop(); }
  RunningOperator(const RunningOperator&) = delete;
  RunningOperator& operator=(const RunningOperator&) = delete;

  void Stop() {
    source_.Stop();
    if (thread_.joinable()) thread_.join();
  }
  // Requests that change something; leases and events do not count.
  [[nodiscard]] std::uint64_t writes() const {
    std::uint64_t writes = 0;
    for (const auto& [what, count] : client_->request_counts()) {
      for (const char* verb : {"create", "update", "patch", "apply", "delete"}) {
        if (what.first == verb) writes += count;
      }
    }
    return writes;
  }
  [[nodiscard]] std::uint64_t requests(const std::string& verb) const {
    std::uint64_t requests = 0;
    for (const auto& [what, count] : client_->request_counts()) {
      if (what.first == verb) requests += count;
    }
    return requests;
  }
  [[nodiscard]] double Reconciles(const std::string& controller) const {
    return Value("controller_runtime_reconcile_total{controller=\"" + controller +
                 "\",result=\"success\"}");
  }
  [[nodiscard]] double Value(const std::string& series) const {
    const std::string text = metrics_.Render();
    const auto place = text.find("\n" + series + " ");
    return place == std::string::npos ? -99 : std::stod(text.substr(place + series.size() + 2));
  }

 private:
  std::shared_ptr<kube::Client> client_;
  Metrics metrics_;
  io::StopSource source_;
  std::thread thread_;
};

class OperatorTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite();

  void SetUp() override {
    static int counter = 0;
    name_space_ = "operator-" + std::to_string(++counter);
    client_ = ApiServer::Shared().MakeClient();
    Create(kube::kNamespaces, {{"metadata", {{"name", name_space_}}}});
  }
  void DefineGpuClusters();
  void TearDown() override {
    // Nobody collects garbage here, and what lies outside namespaces is the next test's too.
    const std::string_view of_operands = "nvidia.com/gpu-operator.state";
    const std::pair<const kube::ResourceKind*, std::string_view> kinds[] = {
        {&desired::kClusterPolicies, ""},
        {&desired::kNvidiaDrivers, ""},
        {&kube::kNodes, ""},
        {&kube::kClusterRoles, of_operands},
        {&kube::kClusterRoleBindings, of_operands}};
    for (const auto& [kind, selector] : kinds) {
      const auto listed = client_->List(*kind, "", {.label_selector = std::string(selector)});
      ASSERT_TRUE(listed) << listed.error().ToString();
      for (const Json& object : listed->items) {
        EXPECT_TRUE(client_->Delete(*kind, kube::KeyOf(object)));
      }
    }
  }

  void Create(const kube::ResourceKind& kind, const Json& object) {
    const auto created = client_->Create(kind, object, kAdmin);
    ASSERT_TRUE(created) << created.error().ToString();
  }
  void CreateGpuNode(const std::string& name, const std::string& runtime = "containerd://2.2.0") {
    Json node = desired::testing::PlainCluster()["nodes"][0];
    node["metadata"]["name"] = name;
    node["metadata"]["labels"].erase("nvidia.com/gpu.present");
    node.erase("status");
    const Json status = {{"nodeInfo", {{"containerRuntimeVersion", runtime}}}};
    Create(kube::kNodes, node);
    Merge(kube::kNodes, Cluster(name), {{"status", status}}, "status");
  }
  void CreatePolicy(const std::string& name, const std::string& spec_yaml = "{}") {
    Json policy = desired::testing::MinimalPolicy(*codec::ParseYaml(spec_yaml));
    policy["metadata"] = {{"name", name}};
    Create(desired::kClusterPolicies, policy);
  }
  void Merge(const kube::ResourceKind& kind, const ObjectKey& key, const Json& patch,
             const std::string& subresource = "") {
    const auto merged = client_->Patch(kind, key, kube::PatchType::kMerge, patch,
                                       {.field_manager = "test", .subresource = subresource});
    ASSERT_TRUE(merged) << merged.error().ToString();
  }
  void MergeSpec(const std::string& policy, const std::string& spec_yaml) {
    Merge(desired::kClusterPolicies, Cluster(policy), {{"spec", *codec::ParseYaml(spec_yaml)}});
  }

  // A NVIDIADriver, of driver 580.65.06 where the spec names no other.
  static Json Driver(const std::string& name, const std::string& spec_yaml) {
    Json spec = *codec::ParseYaml(spec_yaml);
    if (!spec.contains("image")) {
      spec["repository"] = "registry.test";
      spec["image"] = "driver";
      spec["version"] = "580.65.06";
    }
    return {{"apiVersion", "nvidia.com/v1alpha1"},
            {"kind", "NVIDIADriver"},
            {"metadata", {{"name", name}}},
            {"spec", std::move(spec)}};
  }
  void CreateDriver(const std::string& name, const std::string& spec_yaml) {
    Create(desired::kNvidiaDrivers, Driver(name, spec_yaml));
  }
  [[nodiscard]] Json NvidiaDriver(const std::string& name) const {
    const auto object = client_->Get(desired::kNvidiaDrivers, Cluster(name));
    return object ? *object : Json();
  }
  // "notReady ReconcileFailed: message".
  [[nodiscard]] std::string StatusOfDriver(const std::string& name) const {
    const Json object = NvidiaDriver(name);
    const Json* conditions = codec::Find(object, {"status", "conditions"});
    if (conditions == nullptr) return "";
    for (const Json& condition : *conditions) {
      const bool counts = codec::FindString(condition, {"status"}) == "True" &&
                          (condition["type"] == "Ready" || condition["type"] == "Error");
      if (!counts) continue;
      return codec::FindString(object, {"status", "state"}) + " " +
             codec::FindString(condition, {"reason"}) + ": " +
             codec::FindString(condition, {"message"});
    }
    return "";
  }

  static ObjectKey Cluster(const std::string& name) { return {.namespace_name = "", .name = name}; }
  [[nodiscard]] ObjectKey Own(const std::string& name) const {
    return {.namespace_name = name_space_, .name = name};
  }
  [[nodiscard]] bool Exists(const kube::ResourceKind& kind, const ObjectKey& key) const {
    return client_->Get(kind, key).has_value();
  }
  [[nodiscard]] std::string Label(const std::string& node, const std::string& key) const {
    const auto object = client_->Get(kube::kNodes, Cluster(node));
    return object ? codec::FindString(*object, {"metadata", "labels", key}, "(none)") : "(no node)";
  }
  [[nodiscard]] std::string State(const std::string& policy) const {
    const auto object = client_->Get(desired::kClusterPolicies, Cluster(policy));
    return object ? codec::FindString(*object, {"status", "state"}) : "";
  }
  // "True Ready: message", of the policy of that name or of another object with a status.
  [[nodiscard]] std::string Condition(
      const std::string& policy, const std::string& type,
      const kube::ResourceKind& kind = desired::kClusterPolicies) const {
    const auto object = client_->Get(kind, Cluster(policy));
    const Json* conditions = object ? codec::Find(*object, {"status", "conditions"}) : nullptr;
    if (conditions == nullptr) return "";
    for (const Json& condition : *conditions) {
      if (codec::FindString(condition, {"type"}) != type) continue;
      return codec::FindString(condition, {"status"}) + " " +
             codec::FindString(condition, {"reason"}) + ": " +
             codec::FindString(condition, {"message"});
    }
    return "";
  }
  // What the DaemonSet controller writes once all pods run.
  void FinishRollouts() {
    const auto daemonsets = client_->List(kube::kDaemonSets, name_space_);
    ASSERT_TRUE(daemonsets);
    for (const Json& daemonset : daemonsets->items) {
      const Json status = {{"observedGeneration", daemonset["metadata"]["generation"]},
                           {"desiredNumberScheduled", 1},
                           {"currentNumberScheduled", 1},
                           {"numberMisscheduled", 0},
                           {"numberReady", 1},
                           {"updatedNumberScheduled", 1},
                           {"numberAvailable", 1}};
      const auto written =
          client_->Patch(kube::kDaemonSets, kube::KeyOf(daemonset), kube::PatchType::kMerge,
                         {{"status", status}}, {.field_manager = "test", .subresource = "status"});
      // The operator may have deleted it in the meantime.
      ASSERT_TRUE(written || written.error().code == base::Code::kNotFound)
          << written.error().ToString();
    }
  }
  [[nodiscard]] bool ReachesReady(const std::string& policy) {
    return Eventually([&] {
      FinishRollouts();
      return State(policy) == "ready" && Condition(policy, "Ready").starts_with("True Reconciled");
    });
  }

  std::string name_space_;
  std::shared_ptr<kube::Client> client_;
};

}  // namespace pitcrew::gpu_operator::testing
