// The operator's controllers against a real kube-apiserver.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "desired/testing/outside_operand.h"
#include "support_operator.h"

namespace pitcrew::gpu_operator::testing {
namespace {

using ::testing::HasSubstr;

constexpr const char* kDaemonSets[] = {
    "nvidia-driver-daemonset", "nvidia-container-toolkit-daemonset", "nvidia-operator-validator",
    "nvidia-device-plugin-daemonset", "gpu-feature-discovery"};

// An operand that the product does not have: the whole operator knows it from its descriptor.
TEST_F(OperatorTest, AnOperandFromOutsideIsRolledOutAndRemoved) {
  CreateGpuNode("gpu-1");
  CreatePolicy("cluster-policy", "psa: {enabled: true}");
  const RunningOperator running(name_space_, [](RunnerOptions& options) {
    options.operands = &desired::testing::TableWithOutsideOperand();
    options.images[std::string(desired::testing::kOutsideImage)] = "registry.test/frobnicator:v1";
  });
  ASSERT_TRUE(Eventually([&] { return Exists(kube::kDaemonSets, Own("nvidia-frobnicator")); }));
  EXPECT_EQ(Label("gpu-1", std::string(desired::testing::kOutsideLabel)), "true");
  ASSERT_TRUE(Eventually([&] {
    return Condition("cluster-policy", "FrobnicatorReady").starts_with("False RollingOut");
  }));
  ASSERT_TRUE(ReachesReady("cluster-policy"));
  EXPECT_THAT(Condition("cluster-policy", "FrobnicatorReady"), HasSubstr("True Ready"));

  MergeSpec("cluster-policy", "psa: {enabled: false}");
  EXPECT_TRUE(Eventually([&] {
    return !Exists(kube::kDaemonSets, Own("nvidia-frobnicator")) &&
           !Exists(kube::kServiceAccounts, Own("nvidia-frobnicator"));
  }));
  EXPECT_TRUE(Eventually([&] {
    return Condition("cluster-policy", "FrobnicatorReady").starts_with("True Disabled");
  }));
}

// operator-behaviour.md #25 and the chain of issue point 5: labels, objects, status, and silence.
TEST_F(OperatorTest, PolicyBecomesLabelsObjectsAndStatusAndThenNothingIsWritten) {
  RecordProperty("holds", "operator-behaviour.md #25");
  RecordProperty("holds", "operator-behaviour.md #25");
  CreateGpuNode("gpu-1");
  Create(kube::kNodes, {{"metadata", {{"name", "cpu-1"}}}});
  CreatePolicy("cluster-policy");
  {
    RunningOperator running(name_space_);
    ASSERT_TRUE(Eventually([&] { return Exists(kube::kDaemonSets, Own(kDaemonSets[4])); }));
    for (const char* name : kDaemonSets) EXPECT_TRUE(Exists(kube::kDaemonSets, Own(name))) << name;
    EXPECT_TRUE(Exists(kube::kConfigMaps, Own("nvidia-device-plugin-entrypoint")));
    EXPECT_TRUE(Exists(kube::kClusterRoles, Cluster("nvidia-driver")));
    EXPECT_TRUE(Exists(kube::kRuntimeClasses, Cluster("nvidia-cdi")));
    EXPECT_EQ(Label("gpu-1", "nvidia.com/gpu.present"), "true");
    EXPECT_EQ(Label("gpu-1", "nvidia.com/gpu.deploy.device-plugin"), "true");
    EXPECT_EQ(Label("cpu-1", "nvidia.com/gpu.present"), "(none)");
    ASSERT_TRUE(Eventually([&] { return State("cluster-policy") == "notReady"; }));
    ASSERT_TRUE(ReachesReady("cluster-policy"));
    EXPECT_THAT(Condition("cluster-policy", "Ready"), HasSubstr("True Reconciled"));
    EXPECT_THAT(Condition("cluster-policy", "Error"), HasSubstr("False Ready"));
    EXPECT_THAT(Condition("cluster-policy", "DriverReady"), HasSubstr("True Ready"));
    EXPECT_EQ(running.Value("gpu_operator_gpu_nodes_total"), 1);
    EXPECT_EQ(running.Value("gpu_operator_openshift_driver_toolkit_enabled"), 0) << "no OpenShift";
    EXPECT_TRUE(
        Eventually([&] { return running.Value("gpu_operator_reconciliation_status") == 1; }));
    running.Stop();
    const auto events = client_->List(kube::kEvents, "default");
    ASSERT_TRUE(events);
    bool told = false;
    for (const Json& event : events->items) {
      told = told || codec::FindString(event, {"involvedObject", "name"}) == "cluster-policy";
    }
    EXPECT_TRUE(told);
  }
  // A new process looks at everything once and writes nothing.
  RunningOperator again(name_space_);
  ASSERT_TRUE(Eventually([&] { return again.Value("gpu_operator_reconciliation_status") == 1; }));
  Merge(kube::kNodes, Cluster("cpu-1"), {{"metadata", {{"labels", {{"irrelevant", "yes"}}}}}});
  const double passes = again.Value("gpu_operator_reconciliation_total");
  Merge(kube::kNodes, Cluster("cpu-1"),
        {{"metadata", {{"labels", {{"feature.node.kubernetes.io/x", "y"}}}}}});
  ASSERT_TRUE(
      Eventually([&] { return again.Value("gpu_operator_reconciliation_total") > passes; }));
  again.Stop();
  EXPECT_EQ(again.writes(), 0U);
}

// Everything but the DaemonSets.
TEST_F(OperatorTest, WithoutGpuNodesNoDaemonSetIsMade) {
  RecordProperty("holds", "operator-behaviour.md #27");
  Create(kube::kNodes,
         {{"metadata", {{"name", "cpu-1"}, {"labels", {{"feature.node.kubernetes.io/x", "y"}}}}}});
  CreatePolicy("cluster-policy");
  const RunningOperator running(name_space_);
  ASSERT_TRUE(Eventually([&] { return State("cluster-policy") == "ready"; }));
  EXPECT_THAT(Condition("cluster-policy", "Ready"), HasSubstr("True NoGPUNodes"));
  EXPECT_TRUE(Exists(kube::kServiceAccounts, Own("nvidia-driver")));
  EXPECT_EQ(client_->List(kube::kDaemonSets, name_space_)->items.size(), 0U);
  // The first GPU node brings them.
  CreateGpuNode("gpu-1");
  EXPECT_TRUE(Eventually([&] { return Exists(kube::kDaemonSets, Own(kDaemonSets[0])); }));
}

// operator-behaviour.md #12 without its fixed requeue: ready with the reason, until discovery
// writes a label.
TEST_F(OperatorTest, MissingDiscoveryLabelsAreAReason) {
  RecordProperty("holds", "operator-behaviour.md #12");
  RecordProperty("holds", "operator-behaviour.md #12");
  Create(kube::kNodes, {{"metadata", {{"name", "cpu-1"}}}});
  CreatePolicy("cluster-policy");
  const RunningOperator running(name_space_);
  ASSERT_TRUE(Eventually([&] { return State("cluster-policy") == "ready"; }));
  EXPECT_THAT(Condition("cluster-policy", "Ready"), HasSubstr("True NFDLabelsMissing"));
  Merge(kube::kNodes, Cluster("cpu-1"),
        {{"metadata", {{"labels", {{"feature.node.kubernetes.io/x", "y"}}}}}});
  EXPECT_TRUE(Eventually(
      [&] { return Condition("cluster-policy", "Ready").starts_with("True NoGPUNodes"); }));
}

// A disabled operand goes with all that it had, the policy can still be ready.
TEST_F(OperatorTest, DisabledOperandIsRemoved) {
  RecordProperty("holds", "operator-behaviour.md #26");
  CreateGpuNode("gpu-1");
  CreatePolicy("cluster-policy");
  const RunningOperator running(name_space_);
  ASSERT_TRUE(ReachesReady("cluster-policy"));
  ASSERT_TRUE(Exists(kube::kDaemonSets, Own("gpu-feature-discovery")));
  MergeSpec("cluster-policy", "{gfd: {enabled: false}}");
  ASSERT_TRUE(Eventually([&] {
    return !Exists(kube::kDaemonSets, Own("gpu-feature-discovery")) &&
           !Exists(kube::kServiceAccounts, Own("nvidia-gpu-feature-discovery")) &&
           !Exists(kube::kRoles, Own("nvidia-gpu-feature-discovery")) &&
           !Exists(kube::kClusterRoles, Cluster("nvidia-gpu-feature-discovery"));
  }));
  EXPECT_TRUE(Eventually([&] {
    return Condition("cluster-policy", "GPUFeatureDiscoveryReady").starts_with("True Disabled");
  }));
  EXPECT_TRUE(ReachesReady("cluster-policy"));
  EXPECT_TRUE(Exists(kube::kDaemonSets, Own("nvidia-device-plugin-daemonset")));
}

// "Bad input": the condition names the field, the other operands go on, what runs is left alone.
TEST_F(OperatorTest, InvalidBlockGetsAConditionWithItsPath) {
  CreateGpuNode("gpu-1");
  CreatePolicy("cluster-policy");
  const RunningOperator running(name_space_);
  ASSERT_TRUE(ReachesReady("cluster-policy"));
  const auto uid = [&] {
    const auto object = client_->Get(kube::kDaemonSets, Own("nvidia-device-plugin-daemonset"));
    return object ? codec::FindString(*object, {"metadata", "uid"}) : "(none)";
  };
  const std::string before = uid();
  MergeSpec("cluster-policy",
            "{devicePlugin: {repository: only.this}, gfd: {env: [{name: A, value: b}]}}");
  ASSERT_TRUE(Eventually([&] {
    return Condition("cluster-policy", "DevicePluginReady").starts_with("False InvalidImage");
  }));
  EXPECT_THAT(Condition("cluster-policy", "DevicePluginReady"), HasSubstr("spec.devicePlugin."));
  EXPECT_THAT(Condition("cluster-policy", "Error"),
              HasSubstr("True ReconcileFailed: Failed to reconcile state-device-plugin"));
  EXPECT_EQ(State("cluster-policy"), "notReady");
  EXPECT_EQ(uid(), before);
  const auto discovery = client_->Get(kube::kDaemonSets, Own("gpu-feature-discovery"));
  ASSERT_TRUE(discovery);
  EXPECT_THAT(
      desired::testing::EnvOf(desired::testing::ContainerOf(*discovery, "gpu-feature-discovery")),
      ::testing::Contains("A=b"));
  MergeSpec("cluster-policy", "{devicePlugin: {repository: null}}");
  EXPECT_TRUE(ReachesReady("cluster-policy"));
}

// One changed value is one write; and what others change or delete comes back.
TEST_F(OperatorTest, ChangesOfOthersAreRepaired) {
  RecordProperty("holds", "operator-behaviour.md #25");
  CreateGpuNode("gpu-1");
  CreatePolicy("cluster-policy");
  const RunningOperator running(name_space_);
  ASSERT_TRUE(ReachesReady("cluster-policy"));
  ASSERT_TRUE(client_->Delete(kube::kConfigMaps, Own("nvidia-driver-startup-probe")));
  EXPECT_TRUE(
      Eventually([&] { return Exists(kube::kConfigMaps, Own("nvidia-driver-startup-probe")); }));
  Merge(kube::kConfigMaps, Own("nvidia-device-plugin-entrypoint"),
        {{"data", {{"entrypoint.sh", "exit 1"}}}});
  EXPECT_TRUE(Eventually([&] {
    const auto object = client_->Get(kube::kConfigMaps, Own("nvidia-device-plugin-entrypoint"));
    return object && codec::FindString(*object, {"data", "entrypoint.sh"}) != "exit 1";
  }));
}

// operator-behaviour.md #6, #7, and better: the state of the others is stored, and the next one
// takes over by itself.
TEST_F(OperatorTest, TheOldestPolicyIsActive) {
  RecordProperty("holds", "operator-behaviour.md #6, #7");
  RecordProperty("holds", "operator-behaviour.md #6, #7");
  CreateGpuNode("gpu-1");
  CreatePolicy("b-older");
  // Creation times have whole seconds; of equally old ones the smaller name wins.
  CreatePolicy("z-newer", "{gfd: {enabled: false}}");
  const RunningOperator running(name_space_);
  ASSERT_TRUE(Eventually([&] { return State("z-newer") == "ignored"; }));
  ASSERT_TRUE(ReachesReady("b-older"));
  EXPECT_TRUE(Exists(kube::kDaemonSets, Own("gpu-feature-discovery")));
  // One that waits for somebody's finalizer is on its way out already.
  ASSERT_TRUE(client_->Patch(desired::kClusterPolicies, Cluster("b-older"), kube::PatchType::kMerge,
                             {{"metadata", {{"finalizers", {"example.com/wait"}}}}}, kAdmin));
  ASSERT_TRUE(client_->Delete(desired::kClusterPolicies, Cluster("b-older")));
  EXPECT_TRUE(ReachesReady("z-newer"));
  ASSERT_TRUE(client_->Patch(desired::kClusterPolicies, Cluster("b-older"), kube::PatchType::kMerge,
                             {{"metadata", {{"finalizers", nullptr}}}}, kAdmin));
}

// A ConfigMap that the policy names: its absence is a condition, its appearance is seen.
TEST_F(OperatorTest, ReferencedConfigMapIsWaitedFor) {
  CreateGpuNode("gpu-1");
  CreatePolicy("cluster-policy", "{driver: {repoConfig: {configMapName: repos}}}");
  const RunningOperator running(name_space_);
  ASSERT_TRUE(Eventually([&] {
    return Condition("cluster-policy", "DriverReady").starts_with("False ConfigMapMissing");
  }));
  EXPECT_THAT(Condition("cluster-policy", "DriverReady"),
              HasSubstr("spec.driver.repoConfig.configMapName"));
  EXPECT_TRUE(
      Eventually([&] { return Exists(kube::kDaemonSets, Own("nvidia-device-plugin-daemonset")); }));
  Create(kube::kConfigMaps, {{"metadata", {{"name", "repos"}, {"namespace", name_space_}}},
                             {"data", {{"cuda.list", "deb"}}}});
  ASSERT_TRUE(Eventually([&] { return Exists(kube::kDaemonSets, Own(kDaemonSets[0])); }));
  const auto driver = client_->Get(kube::kDaemonSets, Own(kDaemonSets[0]));
  EXPECT_THAT(
      desired::testing::MountsOf(desired::testing::ContainerOf(*driver, "nvidia-driver-ctr")),
      ::testing::Contains("repos:/etc/apt/sources.list.d/cuda.list:ro:sub=cuda.list"));
}

// One node that lost its GPU loses its labels; most of the fleet at once does not.
TEST_F(OperatorTest, LabelsGoOnEvidenceOnly) {
  for (int i = 1; i <= 5; ++i) CreateGpuNode("gpu-" + std::to_string(i));
  CreatePolicy("cluster-policy");
  const auto present = [&](const std::string& node) {
    return Label(node, "nvidia.com/gpu.present");
  };
  const auto lose = [&](const std::string& node) {
    Merge(kube::kNodes, Cluster(node),
          {{"metadata", {{"labels", {{"feature.node.kubernetes.io/pci-10de.present", nullptr}}}}}});
  };
  {
    const RunningOperator running(name_space_);
    for (int i = 1; i <= 5; ++i) {
      ASSERT_TRUE(Eventually([&] { return present("gpu-" + std::to_string(i)) == "true"; }));
    }
    lose("gpu-1");
    ASSERT_TRUE(Eventually([&] { return present("gpu-1") == "false"; }));
    EXPECT_EQ(Label("gpu-1", "nvidia.com/gpu.deploy.driver"), "(none)");
  }
  // Seen together, whatever the speed of this machine.
  for (const char* node : {"gpu-2", "gpu-3", "gpu-4"}) lose(node);
  const RunningOperator running(name_space_);
  ASSERT_TRUE(Eventually([&] {
    return Condition("cluster-policy", "NodeLabelsReady").starts_with("False MassRemovalHeld");
  }));
  EXPECT_EQ(present("gpu-2"), "true");
  // A person says that it is so.
  Merge(
      desired::kClusterPolicies, Cluster("cluster-policy"),
      {{"metadata", {{"annotations", {{"nvidia.com/gpu-operator.allow-mass-removal", "true"}}}}}});
  for (const char* node : {"gpu-2", "gpu-3", "gpu-4"}) {
    EXPECT_TRUE(Eventually([&] { return present(node) == "false"; })) << node;
  }
  EXPECT_EQ(present("gpu-5"), "true");
}

// operator-behaviour.md #8 [TestClusterPolicyBlockedByGPUCluster]; and nothing that stands is
// touched.
TEST_F(OperatorTest, AGpuClusterBesideThePolicyIsAnError) {
  CreateGpuNode("gpu-1");
  CreatePolicy("cluster-policy");
  const RunningOperator running(name_space_);
  ASSERT_TRUE(ReachesReady("cluster-policy"));
  DefineGpuClusters();
  ASSERT_TRUE(Eventually([&] {
    return client_->Create(desired::kGpuClusters, {{"metadata", {{"name", "gpu-cluster"}}}}, kAdmin)
        .has_value();
  }));
  ASSERT_TRUE(Eventually([&] {
    return Condition("cluster-policy", "Error").find("GPUCluster gpu-cluster") != std::string::npos;
  }));
  EXPECT_EQ(State("cluster-policy"), "notReady");
  EXPECT_THAT(Condition("cluster-policy", "DriverReady"), ::testing::StartsWith("Unknown "));
  // What the nodes tell is known all the same.
  EXPECT_EQ(running.Value("gpu_operator_reconciliation_has_nfd_labels"), 1);
  EXPECT_TRUE(Exists(kube::kDaemonSets, Own("nvidia-driver-daemonset")));
  ASSERT_TRUE(client_->Delete(desired::kGpuClusters, Cluster("gpu-cluster")));
  EXPECT_TRUE(ReachesReady("cluster-policy"));
  EXPECT_TRUE(client_->Delete(kube::kCustomResourceDefinitions, Cluster("gpuclusters.nvidia.com")));
}

// A discovery that fails node by node is no other than one that fails at once; and GPUs that the
// kubelet offers are there, whatever discovery says.
TEST_F(OperatorTest, LabelsThatGoOneByOneAreHeldToo) {
  for (int i = 1; i <= 5; ++i) CreateGpuNode("gpu-" + std::to_string(i));
  CreatePolicy("cluster-policy");
  const auto present = [&](const std::string& node) {
    return Label(node, "nvidia.com/gpu.present");
  };
  const auto lose = [&](const std::string& node) {
    Merge(kube::kNodes, Cluster(node),
          {{"metadata", {{"labels", {{"feature.node.kubernetes.io/pci-10de.present", nullptr}}}}}});
  };
  Merge(kube::kNodes, Cluster("gpu-5"), {{"status", {{"allocatable", {{"nvidia.com/gpu", "8"}}}}}},
        "status");
  const RunningOperator running(name_space_);
  for (int i = 1; i <= 5; ++i) {
    ASSERT_TRUE(Eventually([&] { return present("gpu-" + std::to_string(i)) == "true"; }));
  }
  lose("gpu-5");
  for (const char* node : {"gpu-1", "gpu-2"}) {
    lose(node);
    ASSERT_TRUE(Eventually([&] { return present(node) == "false"; })) << node;
  }
  lose("gpu-3");
  ASSERT_TRUE(Eventually([&] {
    return Condition("cluster-policy", "NodeLabelsReady").starts_with("False MassRemovalHeld");
  }));
  EXPECT_EQ(present("gpu-3"), "true");
  EXPECT_EQ(present("gpu-5"), "true");
  EXPECT_EQ(Label("gpu-5", "nvidia.com/gpu.deploy.driver"), "true");
}

// operator-behaviour.md section 14: with the policy the nodes' labels go, but for
// what a person set.
TEST_F(OperatorTest, DeletedPolicyTakesTheNodesLabelsAlong) {
  CreateGpuNode("gpu-1");
  CreateGpuNode("gpu-2");
  CreatePolicy("cluster-policy");
  Merge(kube::kNodes, Cluster("gpu-2"),
        {{"metadata", {{"labels", {{"nvidia.com/gpu.deploy.dcgm", "false"}}}}}});
  const RunningOperator running(name_space_);
  const auto present = [&](const char* node) { return Label(node, "nvidia.com/gpu.present"); };
  ASSERT_TRUE(Eventually([&] { return present("gpu-1") == "true" && present("gpu-2") == "true"; }));
  ASSERT_TRUE(client_->Delete(desired::kClusterPolicies, Cluster("cluster-policy")));
  ASSERT_TRUE(
      Eventually([&] { return present("gpu-1") == "(none)" && present("gpu-2") == "(none)"; }));
  for (const char* node : {"gpu-1", "gpu-2"}) {
    const auto object = client_->Get(kube::kNodes, Cluster(node));
    ASSERT_TRUE(object);
    for (const auto& [key, value] : (*object)["metadata"]["labels"].items()) {
      EXPECT_TRUE(!key.starts_with("nvidia.com/") || value == "false") << node << " " << key;
    }
    EXPECT_EQ(
        codec::Find(*object, {"metadata", "annotations", "nvidia.com/gpu-driver-upgrade-enabled"}),
        nullptr);
  }
  EXPECT_EQ(Label("gpu-2", "nvidia.com/gpu.deploy.dcgm"), "false");
  // A new policy finds the nodes again.
  CreatePolicy("cluster-policy");
  EXPECT_TRUE(Eventually([&] { return present("gpu-1") == "true"; }));
}

// Deleted with its objects orphaned: they are to go on, so the nodes stay as they are. And an
// operator that has not seen the deletion takes nothing. Both show only when the node was looked at
// while there was no policy.
TEST_F(OperatorTest, NodesAreNotLeftWithoutEvidence) {
  CreateGpuNode("gpu-1");
  // Taken along with the others, and never written again.
  const std::string trace = "nvidia.com/mig.config.state";
  Merge(kube::kNodes, Cluster("gpu-1"), {{"metadata", {{"labels", {{trace, "success"}}}}}});
  const auto look_at_node_without_policy = [&](const RunningOperator& running) {
    ASSERT_TRUE(Eventually([&] {
      return running.Value("gpu_operator_store_objects{resource=\"clusterpolicies\"}") == 0 &&
             running.Value("gpu_operator_store_objects{resource=\"nodes\"}") == 1;
    }));
    const auto looks = [&] {
      return running.Value(
          "controller_runtime_reconcile_total{controller=\"nodes\",result=\"success\"}");
    };
    // The first looks may still be those that the policy's deletion has caused.
    for (int round = 0; round < 4; ++round) {
      const double before = looks();
      Merge(kube::kNodes, Cluster("gpu-1"),
            {{"metadata", {{"labels", {{"nvidia.com/gpu.product", std::to_string(before)}}}}}});
      ASSERT_TRUE(Eventually([&] { return looks() > before; }));
    }
  };
  CreatePolicy("cluster-policy");
  {
    const RunningOperator running(name_space_);
    ASSERT_TRUE(Eventually([&] { return Label("gpu-1", "nvidia.com/gpu.present") == "true"; }));
    ASSERT_TRUE(client_->Delete(desired::kClusterPolicies, Cluster("cluster-policy"),
                                {.propagation = kube::Propagation::kOrphan}));
    // The garbage collector takes this finalizer away; there is none here.
    Merge(desired::kClusterPolicies, Cluster("cluster-policy"),
          {{"metadata", {{"finalizers", nullptr}}}});
    look_at_node_without_policy(running);
  }
  EXPECT_EQ(Label("gpu-1", trace), "success");
  {
    const RunningOperator again(name_space_);
    look_at_node_without_policy(again);
  }
  EXPECT_EQ(Label("gpu-1", trace), "success");
  EXPECT_EQ(Label("gpu-1", "nvidia.com/gpu.present"), "true");
}

}  // namespace
}  // namespace pitcrew::gpu_operator::testing
