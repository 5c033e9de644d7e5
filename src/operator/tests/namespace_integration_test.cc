// What the operator writes onto its own namespace, on a real kube-apiserver.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support_operator.h"

namespace pitcrew::gpu_operator::testing {
namespace {

// operator-behaviour.md section 4: only where the policy says so.
TEST_F(OperatorTest, PrivilegedPodsAreLetIntoTheNamespaceWhenThePolicySaysSo) {
  const auto enforced = [&] {
    const auto object = client_->Get(kube::kNamespaces, Cluster(name_space_));
    return object ? codec::FindString(*object,
                                      {"metadata", "labels", "pod-security.kubernetes.io/enforce"})
                  : "(no namespace)";
  };
  CreatePolicy("cluster-policy");
  const RunningOperator running(name_space_);
  ASSERT_TRUE(Eventually([&] { return !State("cluster-policy").empty(); }));
  EXPECT_EQ(enforced(), "");
  MergeSpec("cluster-policy", "psa: {enabled: true}");
  EXPECT_TRUE(Eventually([&] { return enforced() == "privileged"; })) << enforced();
}

}  // namespace
}  // namespace pitcrew::gpu_operator::testing
