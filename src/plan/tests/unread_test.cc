// What the cluster did not tell is a problem of the plan that says so, and never an absence.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codec/yaml.h"
#include "desired/cluster_kinds.h"
#include "kubevirt/kinds.h"
#include "plan/departing_pods.h"
#include "plan/plan.h"
#include "workload/gpu_use.h"

namespace pitcrew::plan {
namespace {

using codec::Json;
using ::testing::Contains;
using ::testing::Not;

Json Policy(bool nvidia_drivers) {
  Json policy = *codec::ParseYaml(R"(
apiVersion: nvidia.com/v1
kind: ClusterPolicy
metadata: {name: cluster-policy}
spec: {daemonsets: {}, dcgm: {}, dcgmExporter: {}, devicePlugin: {}, driver: {}, gfd: {},
       nodeStatusExporter: {}, operator: {}, toolkit: {}}
)");
  policy["spec"]["driver"]["useNvidiaDriverCRD"] = nvidia_drivers;
  return policy;
}

Options InNamespace() {
  Options options;
  options.operator_namespace = "gpu-operator";
  return options;
}

std::vector<Problem> ProblemsWithout(const kube::ResourceKind& kind, const Options& options,
                                     bool nvidia_drivers = false) {
  snapshot::Snapshot snapshot("a test", /*complete=*/true);
  snapshot.SetUnknown(kind, base::Unavailable("Away", "nobody answers"));
  const auto plan = MakePlan(snapshot, Policy(nvidia_drivers), options);
  EXPECT_TRUE(plan) << plan.error().message;
  return plan ? plan->problems : std::vector<Problem>();
}

Problem Unread(std::string where) {
  return {.where = std::move(where), .message = "nobody answers", .unread = true};
}

TEST(Unread, KindsThatThePlanIsMadeFrom) {
  const Options options = InNamespace();
  EXPECT_THAT(ProblemsWithout(kube::kDaemonSets, options), Contains(Unread("daemonsets")));
  EXPECT_THAT(ProblemsWithout(desired::kGpuClusters, options), Contains(Unread("gpuclusters")));
  EXPECT_THAT(ProblemsWithout(desired::kNvidiaDrivers, options, true),
              Contains(Unread("nvidiadrivers")));
  EXPECT_THAT(ProblemsWithout(desired::kNvidiaDrivers, options),
              Not(Contains(Unread("nvidiadrivers"))))
      << "the policy's own driver does not depend on them";
}

TEST(Unread, WhereDevicesArePermitted) {
  Options options = InNamespace();
  for (const auto* kind : {&kubevirt::kKubeVirts, &kubevirt::kHyperConvergedsV1}) {
    EXPECT_THAT(ProblemsWithout(*kind, options), Not(Contains(Unread("permitted devices"))))
        << "nobody asked for them";
  }
  options.permit.emplace();
  for (const auto* kind : {&kubevirt::kKubeVirts, &kubevirt::kHyperConvergedsV1}) {
    EXPECT_THAT(ProblemsWithout(*kind, options), Contains(Unread("permitted devices")));
  }
}

TEST(Unread, WhatGoesWithTheOperator) {
  snapshot::Snapshot snapshot("a test", /*complete=*/true);
  for (const auto* kind : {&kube::kNodes, &kube::kDaemonSets}) {
    snapshot.SetUnknown(*kind, base::Unavailable("Away", "nobody answers"));
  }
  const auto plan = MakeUninstallPlan(snapshot);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_THAT(plan->problems, Contains(Unread("nodes")));
  EXPECT_THAT(plan->problems, Contains(Unread("daemonsets")));
}

// Claims are looked at only where a driver would be exchanged and a pod there has one.
TEST(Unread, ClaimsOfPodsThatWouldLeave) {
  snapshot::Snapshot snapshot("a test", /*complete=*/true);
  for (const char* object :
       {"{apiVersion: v1, kind: Node, metadata: {name: a}}",
        "{apiVersion: v1, kind: Pod, metadata: {name: claims, namespace: ml, ownerReferences: "
        "[{apiVersion: apps/v1, kind: ReplicaSet, name: o, uid: o, controller: true}]}, spec: "
        "{nodeName: a, containers: [{}], resourceClaims: [{name: c, resourceClaimName: c}]}}"}) {
    ASSERT_TRUE(snapshot.Add(*codec::ParseYaml(object)));
  }
  snapshot.SetUnknown(workload::kClaimVersions.front(),
                      base::Unavailable("Away", "nobody answers"));
  Plan plan;
  plan.upgrades.push_back({.whose = "driver",
                           .nodes_with_driver = 1,
                           .policy = {},
                           .automatic = true,
                           .nodes = {{.node = "a"}},
                           .at_once = "1 at a time",
                           .how_long = ""});
  AddDepartingPods(snapshot, plan);
  EXPECT_THAT(plan.upgrades[0].nodes[0].evicted, ::testing::ElementsAre("ml/claims"));
  EXPECT_THAT(plan.notes, Contains("claims of pods cannot be read, and count as claims of GPUs: "
                                   "nobody answers"));
}

}  // namespace
}  // namespace pitcrew::plan
