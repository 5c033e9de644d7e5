// NVIDIADriver objects on a real API server: operator-behaviour.md section 8.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <optional>

#include "api/labels.h"
#include "desired/pod.h"
#include "support_admission.h"
#include "support_operator.h"

namespace pitcrew::gpu_operator::testing {
namespace {

using ::testing::StartsWith;

constexpr const char* kOwner = "nvidia.com/gpu-operator.driver.owner";

class DriversTest : public OperatorTest {
 protected:
  void CreateNode(const std::string& name, const std::string& pool) {
    CreateGpuNode(name);
    Merge(kube::kNodes, Cluster(name), {{"metadata", {{"labels", {{"pool", pool}}}}}});
  }
  // The DaemonSets that the object has.
  [[nodiscard]] std::vector<Json> DaemonSetsOf(const std::string& owner) const {
    std::vector<Json> found;
    const auto daemonsets = client_->List(kube::kDaemonSets, name_space_);
    if (!daemonsets) return found;
    for (const Json& daemonset : daemonsets->items) {
      if (daemonset["metadata"]["ownerReferences"][0]["name"] == owner &&
          daemonset["metadata"]["labels"].value("app.kubernetes.io/component", "") ==
              "nvidia-driver") {
        found.push_back(daemonset);
      }
    }
    return found;
  }
  [[nodiscard]] bool DriverIsReady(const std::string& name) {
    return Eventually([&] {
      FinishRollouts();
      return StatusOfDriver(name).starts_with("ready Reconciled: the driver is ready on ");
    });
  }
};

// clusterpolicy-api.md #18, #19: what the API server itself refuses.
TEST_F(DriversTest, TheDefinitionRefusesWhatCannotBe) {
  RecordProperty("holds", "clusterpolicy-api.md #18, #19");
  const auto creates = [&](const std::string& spec) {
    return client_->Create(desired::kNvidiaDrivers, Driver("checked", spec), kAdmin).has_value();
  };
  EXPECT_FALSE(creates("{default: true, nodeSelector: {a: b}}"));
  EXPECT_FALSE(creates("{driverType: host}"));
  EXPECT_TRUE(creates("{default: true, nodeSelector: {}, usePrecompiled: false}"));
  const auto changes = [&](const Json& spec) {
    return client_
        ->Patch(desired::kNvidiaDrivers, Cluster("checked"), kube::PatchType::kMerge,
                {{"spec", spec}}, {.field_manager = "test"})
        .has_value();
  };
  EXPECT_FALSE(changes({{"driverType", "vgpu"}}));
  EXPECT_FALSE(changes({{"usePrecompiled", true}}));
  EXPECT_TRUE(changes({{"version", "590"}}));
  const Json stored = NvidiaDriver("checked");
  EXPECT_EQ(stored["spec"]["kernelModuleType"], "auto");
  EXPECT_EQ(stored["spec"]["driverType"], "gpu");
}

// Two drivers, each for its nodes; the nodes are told, and so is each driver's status.
TEST_F(DriversTest, EachDriverHasItsNodes) {
  CreateNode("gpu-1", "training");
  CreateNode("gpu-2", "inference");
  CreatePolicy("cluster-policy", kDelegated);
  CreateDriver("fallback", "{default: true}");
  CreateDriver("training", "{nodeSelector: {pool: training}}");
  const RunningOperator running(name_space_);
  EXPECT_TRUE(Eventually([&] { return Label("gpu-1", kOwner) == "training"; }));
  EXPECT_TRUE(Eventually([&] { return Label("gpu-2", kOwner) == "fallback"; }));
  EXPECT_TRUE(DriverIsReady("training"));
  EXPECT_TRUE(DriverIsReady("fallback"));
  const auto daemonsets = DaemonSetsOf("training");
  ASSERT_EQ(daemonsets.size(), 1U);
  const Json& selector = daemonsets[0]["spec"]["template"]["spec"]["nodeSelector"];
  EXPECT_EQ(selector["pool"], "training");
  EXPECT_EQ(selector[kOwner], "training");
  EXPECT_EQ(DaemonSetsOf("fallback").size(), 1U);
  EXPECT_FALSE(Exists(kube::kDaemonSets, Own("nvidia-driver-daemonset")));
  const Json status = NvidiaDriver("training")["status"];
  EXPECT_EQ(status["namespace"], name_space_);
  ASSERT_EQ(status["conditions"].size(), 3U) << status;
  EXPECT_EQ(status["conditions"][2]["type"], "PoolReady-ubuntu22.04");

  // A node changes hands.
  Merge(kube::kNodes, Cluster("gpu-1"), {{"metadata", {{"labels", {{"pool", "inference"}}}}}});
  EXPECT_TRUE(Eventually([&] { return Label("gpu-1", kOwner) == "fallback"; }));
  EXPECT_TRUE(Eventually([&] { return DaemonSetsOf("training").empty(); }));
  EXPECT_TRUE(Eventually([&] {
    return StatusOfDriver("training").starts_with("ready Reconciled: no node has been given");
  }));
}

// operator-behaviour.md #39, better: what is refused for one node is asked again by itself, and
// holds up no other.
TEST_F(DriversTest, AnOwnerThatIsRefusedHoldsUpNoOtherNode) {
  RecordProperty("holds", "operator-behaviour.md #39, better");
  std::optional<AdmissionRule> rule(
      std::in_place, client_, "no-owner-" + name_space_, "", "nodes",
      fmt::format("!('{}' in object.metadata.labels) || object.metadata.name != 'gpu-1'", kOwner));
  CreateNode("gpu-1", "training");
  Merge(kube::kNodes, Cluster("gpu-1"),
        {{"metadata", {{"labels", {{"nvidia.com/gpu.present", "true"}}}}}});
  ASSERT_TRUE(Eventually([&] {
    return !client_->Patch(kube::kNodes, Cluster("gpu-1"), kube::PatchType::kMerge,
                           {{"metadata", {{"labels", {{kOwner, "only"}}}}}}, {.dry_run = true});
  }));
  CreateNode("gpu-2", "training");
  CreatePolicy("cluster-policy", kDelegated);
  CreateDriver("only", "{default: true}");
  const RunningOperator running(name_space_);
  EXPECT_TRUE(Eventually([&] { return Label("gpu-2", kOwner) == "only"; }));
  EXPECT_TRUE(Eventually([&] {
    return running.Value("controller_runtime_reconcile_errors_total{controller=\"nodes\"}") > 0;
  }));
  EXPECT_EQ(Label("gpu-1", kOwner), "(none)");
  EXPECT_TRUE(Eventually([&] {
    FinishRollouts();
    return StatusOfDriver("only").starts_with(
        "notReady DriverNotReady: 1 more node is about to be given this driver");
  })) << StatusOfDriver("only");
  rule.reset();
  EXPECT_TRUE(Eventually([&] { return Label("gpu-1", kOwner) == "only"; }));
}

// operator-behaviour.md #40: both are told, and what runs stays.
TEST_F(DriversTest, RivalsAreTold) {
  RecordProperty("holds", "operator-behaviour.md #40");
  CreateNode("gpu-1", "training");
  CreatePolicy("cluster-policy", kDelegated);
  CreateDriver("a", "{nodeSelector: {pool: training}}");
  const RunningOperator running(name_space_);
  ASSERT_TRUE(DriverIsReady("a"));
  CreateDriver("b", "{}");
  for (const char* name : {"a", "b"}) {
    EXPECT_TRUE(Eventually([&] {
      return StatusOfDriver(name).starts_with(
          "notReady ConflictingNodeSelector: spec.nodeSelector: conflicting NVIDIADrivers a, b");
    })) << StatusOfDriver(name);
  }
  EXPECT_EQ(Label("gpu-1", kOwner), "a");
  EXPECT_EQ(DaemonSetsOf("a").size(), 1U);
  ASSERT_TRUE(client_->Delete(desired::kNvidiaDrivers, Cluster("b")));
  EXPECT_TRUE(DriverIsReady("a"));
}

// The last GPUCluster goes, and nothing else tells the driver's object of it.
TEST_F(DriversTest, AGpuClusterThatGoesLetsTheDriverOn) {
  DefineGpuClusters();
  ASSERT_TRUE(Eventually([&] {
    return client_->Create(desired::kGpuClusters, {{"metadata", {{"name", "gpu-cluster"}}}}, kAdmin)
        .has_value();
  }));
  CreateNode("gpu-1", "training");
  CreatePolicy("cluster-policy", kDelegated);
  CreateDriver("only", "{default: true}");
  const RunningOperator running(name_space_);
  ASSERT_TRUE(Eventually([&] {
    return StatusOfDriver("only").find("GPUCluster gpu-cluster") != std::string::npos;
  })) << StatusOfDriver("only");
  ASSERT_TRUE(client_->Delete(desired::kGpuClusters, Cluster("gpu-cluster")));
  EXPECT_TRUE(DriverIsReady("only")) << StatusOfDriver("only");
  EXPECT_TRUE(client_->Delete(kube::kCustomResourceDefinitions, Cluster("gpuclusters.nvidia.com")));
}

// Which of the two kinds describes the driver, nobody says then.
TEST_F(DriversTest, WithoutAClusterPolicyDaemonSetsAreLeftAsTheyAre) {
  CreateNode("gpu-1", "training");
  CreatePolicy("cluster-policy", kDelegated);
  CreateDriver("only", "{default: true}");
  const RunningOperator running(name_space_);
  ASSERT_TRUE(DriverIsReady("only"));
  const Json before = DaemonSetsOf("only").at(0);
  ASSERT_TRUE(client_->Delete(desired::kClusterPolicies, Cluster("cluster-policy")));
  Merge(desired::kNvidiaDrivers, Cluster("only"), {{"spec", {{"version", "590.3.4"}}}});
  EXPECT_TRUE(Eventually([&] {
    const Json object = NvidiaDriver("only");
    const Json* conditions = codec::Find(object, {"status", "conditions"});
    return conditions != nullptr && std::ranges::any_of(*conditions, [&](const Json& condition) {
             return condition["reason"] == "NoClusterPolicy" &&
                    condition["observedGeneration"] == object["metadata"]["generation"];
           });
  })) << NvidiaDriver("only").dump();
  const auto after = DaemonSetsOf("only");
  ASSERT_EQ(after.size(), 1U);
  EXPECT_EQ(after[0]["metadata"]["uid"], before["metadata"]["uid"]);
  EXPECT_EQ(after[0]["spec"], before["spec"]);
  CreatePolicy("cluster-policy", kDelegated);
  EXPECT_TRUE(Eventually([&] {
    const auto daemonsets = DaemonSetsOf("only");
    return daemonsets.size() == 1 && daemonsets[0]["spec"].dump().contains("590.3.4");
  }));
}

TEST_F(DriversTest, SeveralDefaultsAreTold) {
  CreateNode("gpu-1", "training");
  CreatePolicy("cluster-policy", kDelegated);
  CreateDriver("default-a", "{default: true}");
  CreateDriver("default-b", "{default: true}");
  const RunningOperator running(name_space_);
  EXPECT_TRUE(Eventually([&] {
    return StatusOfDriver("default-b")
        .starts_with(
            "notReady ReconcileFailed: spec.default: multiple default NVIDIADrivers "
            "found: [default-a default-b]");
  })) << StatusOfDriver("default-b");
  EXPECT_EQ(Label("gpu-1", kOwner), "(none)");
}

// operator-behaviour.md #41: named by its field, and mended by what was missing.
TEST_F(DriversTest, WhatIsWrongIsNamed) {
  RecordProperty("holds", "operator-behaviour.md #41");
  CreateNode("gpu-1", "training");
  CreatePolicy("cluster-policy", kDelegated);
  CreateNode("gpu-2", "other");
  CreateDriver("other", "{nodeSelector: {pool: other}, secretEnv: keys}");
  const RunningOperator running(name_space_);
  EXPECT_TRUE(Eventually([&] {
    return StatusOfDriver("other").starts_with(
        "notReady ReconcileFailed: spec.secretEnv: there is no Secret keys");
  })) << StatusOfDriver("other");
  Create(kube::kSecrets, {{"metadata", {{"name", "keys"}, {"namespace", name_space_}}}});
  EXPECT_TRUE(DriverIsReady("other"));
  CreateDriver("precompiled",
               "{nodeSelector: {pool: training}, usePrecompiled: true, gds: {enabled: true, "
               "version: v2.16.1}}");
  EXPECT_TRUE(Eventually([&] {
    return StatusOfDriver("precompiled")
        .starts_with("notReady ReconcileFailed: spec.gds.enabled: ");
  })) << StatusOfDriver("precompiled");
}

// Its pods are restarted, and its driver stays loaded: the digest is the same.
TEST_F(DriversTest, AnotherLicenceRestartsThePods) {
  CreateNode("gpu-1", "training");
  CreatePolicy("cluster-policy", kDelegated);
  Create(kube::kSecrets, {{"metadata", {{"name", "licence"}, {"namespace", name_space_}}},
                          {"stringData", {{"gridd.conf", "one"}}}});
  CreateDriver("all", "{default: true, licensingConfig: {secretName: licence}}");
  const RunningOperator running(name_space_);
  ASSERT_TRUE(DriverIsReady("all"));
  const auto templates = [&] {
    const auto daemonsets = client_->List(kube::kDaemonSets, name_space_);
    std::pair<std::string, std::string> found;  // digest, annotations of the pods
    for (const Json& daemonset : daemonsets->items) {
      if (codec::FindString(daemonset, {"spec", "template", "metadata", "labels",
                                        "app.kubernetes.io/component"}) != "nvidia-driver")
        continue;
      found.first = desired::FindEnv(desired::testing::ContainerOf(daemonset, "nvidia-driver-ctr"),
                                     "DRIVER_CONFIG_DIGEST")
                        .value_or("");
      const Json* annotations =
          codec::Find(daemonset, {"spec", "template", "metadata", "annotations"});
      found.second = annotations == nullptr ? "" : annotations->dump();
    }
    return found;
  };
  const auto before = templates();
  ASSERT_NE(before.first, "");
  Merge(kube::kSecrets, Own("licence"), {{"stringData", {{"gridd.conf", "two"}}}});
  ASSERT_TRUE(Eventually([&] { return templates().second != before.second; }));
  EXPECT_EQ(templates().first, before.first);
}

// driver-lifecycle.md section 2.18: DaemonSets change hands both ways, and no pod is deleted for
// it.
TEST_F(DriversTest, TheDriverChangesHandsAndBack) {
  CreateNode("gpu-1", "training");
  CreatePolicy("cluster-policy");
  CreateDriver("all", "{default: true}");
  const RunningOperator running(name_space_);
  ASSERT_TRUE(ReachesReady("cluster-policy"));
  EXPECT_THAT(StatusOfDriver("all"), StartsWith("disabled Reconciled: "));
  EXPECT_EQ(Label("gpu-1", kOwner), "(none)");
  ASSERT_TRUE(Exists(kube::kDaemonSets, Own("nvidia-driver-daemonset")));

  // Nobody collects garbage here: what waits with a finalizer is what is orphaned.
  const auto orphaned = [&](const std::string& name) {
    const auto daemonset = client_->Get(kube::kDaemonSets, Own(name));
    if (!daemonset) return false;
    const Json* finalizers = codec::Find(*daemonset, {"metadata", "finalizers"});
    return finalizers != nullptr && *finalizers == Json{"orphan"} &&
           codec::Find(*daemonset, {"metadata", "deletionTimestamp"}) != nullptr;
  };
  MergeSpec("cluster-policy", kDelegated);
  EXPECT_TRUE(Eventually([&] { return orphaned("nvidia-driver-daemonset"); }));
  EXPECT_TRUE(DriverIsReady("all"));
  const auto daemonsets = DaemonSetsOf("all");
  ASSERT_EQ(daemonsets.size(), 1U);
  const std::string name = daemonsets[0]["metadata"]["name"];

  MergeSpec("cluster-policy", "{driver: {useNvidiaDriverCRD: false}}");
  EXPECT_TRUE(Eventually([&] { return orphaned(name); }));
  EXPECT_TRUE(
      Eventually([&] { return StatusOfDriver("all").starts_with("disabled Reconciled: "); }));
  // The label by which its pods are on the node stays.
  EXPECT_EQ(Label("gpu-1", kOwner), "all");
}

// A node whose labels are gone for a while is not a node without a driver.
TEST_F(DriversTest, AnUnknownSystemRemovesNothing) {
  CreateNode("gpu-1", "training");
  CreatePolicy("cluster-policy", kDelegated);
  CreateDriver("all", "{default: true}");
  const RunningOperator running(name_space_);
  ASSERT_TRUE(DriverIsReady("all"));
  const std::string_view label = api::kOsReleaseVersionId;
  const auto set = [&](const Json& value) {
    Merge(kube::kNodes, Cluster("gpu-1"),
          {{"metadata", {{"labels", {{std::string(label), value}}}}}});
  };
  set(nullptr);
  EXPECT_TRUE(Eventually([&] {
    const std::string status = StatusOfDriver("all");
    return status.starts_with("notReady DriverNotReady: 1 of 1 node cannot be given a driver") &&
           status.contains(label);
  })) << StatusOfDriver("all");
  EXPECT_EQ(DaemonSetsOf("all").size(), 1U);
  set("24.04");
  EXPECT_TRUE(Eventually([&] {
    const auto daemonsets = DaemonSetsOf("all");
    return daemonsets.size() == 1 &&
           daemonsets[0]["metadata"]["labels"]["nvidia.com/node.os-version"] == "ubuntu24.04";
  }));
}

}  // namespace
}  // namespace pitcrew::gpu_operator::testing
