// What the API server's admission refuses is tried again by itself: the rule may change, and
// nothing tells the operator of it.
#include <gmock/gmock.h>

#include <optional>

#include "support_admission.h"

namespace pitcrew::gpu_operator::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class AdmissionTest : public OperatorTest {
 protected:
  // Refuses each change of DaemonSets of this test's namespace; returns once it holds.
  void Refuse(const std::string& daemonset) {
    rule_.emplace(client_, "no-daemonsets-" + name_space_, "apps", "daemonsets",
                  "object.metadata.namespace != '" + name_space_ + "'");
    ASSERT_TRUE(Eventually([&] {
      return !client_->Patch(kube::kDaemonSets, Own(daemonset), kube::PatchType::kMerge,
                             {{"metadata", {{"labels", {{"tried", "true"}}}}}}, {.dry_run = true});
    }));
  }
  [[nodiscard]] std::string TemplateOf(const std::string& daemonset) const {
    const auto object = client_->Get(kube::kDaemonSets, Own(daemonset));
    return object ? (*object)["spec"]["template"].dump() : "";
  }

  std::optional<AdmissionRule> rule_;
};

TEST_F(AdmissionTest, WhatAPolicyHasIsAppliedOnceTheRuleIsGone) {
  CreateGpuNode("gpu-1");
  CreatePolicy("cluster-policy");
  const RunningOperator running(name_space_, [](RunnerOptions& options) {
    options.refusal_retry = std::chrono::milliseconds(200);
  });
  ASSERT_TRUE(ReachesReady("cluster-policy"));
  const std::string daemonset = "gpu-feature-discovery";
  ASSERT_NO_FATAL_FAILURE(Refuse(daemonset));
  MergeSpec("cluster-policy", "{gfd: {env: [{name: SEEN, value: changed}]}}");
  ASSERT_TRUE(Eventually(
      [&] { return Condition("cluster-policy", "Error").find(daemonset) != std::string::npos; }));
  EXPECT_THAT(TemplateOf(daemonset), Not(HasSubstr("SEEN")));
  rule_.reset();
  EXPECT_TRUE(Eventually([&] { return TemplateOf(daemonset).find("SEEN") != std::string::npos; }));
  EXPECT_TRUE(ReachesReady("cluster-policy"));
}

TEST_F(AdmissionTest, WhatADriverHasIsAppliedOnceTheRuleIsGone) {
  CreateGpuNode("gpu-1");
  CreatePolicy("cluster-policy", kDelegated);
  CreateDriver("only", "{default: true}");
  const RunningOperator running(name_space_, [](RunnerOptions& options) {
    options.refusal_retry = std::chrono::milliseconds(200);
  });
  ASSERT_TRUE(Eventually([&] {
    FinishRollouts();
    return StatusOfDriver("only").starts_with("ready Reconciled: the driver is ready on ");
  }));
  const auto drivers =
      client_->List(kube::kDaemonSets, name_space_,
                    {.label_selector = "app.kubernetes.io/component=nvidia-driver"});
  ASSERT_TRUE(drivers && drivers->items.size() == 1);
  const std::string daemonset = kube::KeyOf(drivers->items[0]).name;
  ASSERT_NO_FATAL_FAILURE(Refuse(daemonset));
  Merge(desired::kNvidiaDrivers, Cluster("only"), {{"spec", {{"version", "590.44.01"}}}});
  ASSERT_TRUE(Eventually([&] {
    return StatusOfDriver("only").find(daemonset) != std::string::npos;
  })) << StatusOfDriver("only");
  EXPECT_THAT(TemplateOf(daemonset), Not(HasSubstr("590.44.01")));
  rule_.reset();
  EXPECT_TRUE(Eventually([&] {
    return TemplateOf(daemonset).find("590.44.01") != std::string::npos;
  })) << StatusOfDriver("only");
}

}  // namespace
}  // namespace pitcrew::gpu_operator::testing
