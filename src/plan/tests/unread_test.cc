// What the cluster did not tell is a problem of the plan that says so, and never an absence.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codec/yaml.h"
#include "desired/cluster_kinds.h"
#include "kubevirt/kinds.h"
#include "plan/plan.h"

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

}  // namespace
}  // namespace pitcrew::plan
