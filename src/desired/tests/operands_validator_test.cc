// What the policy says about the validator arrives in its containers, before what its own variables
// say (validator.md, checklist 11 to 13).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "desired/testing/render_cluster.h"

namespace pitcrew::desired::testing {
namespace {

using codec::Json;
using ::testing::Contains;
using ::testing::ElementsAre;

constexpr const char* kState = "state-operator-validation";
constexpr const char* kValidator = R"(
validator:
  repository: my.registry/x
  image: validator
  version: v2
  imagePullPolicy: Always
  imagePullSecrets: [pull-secret1, pull-secret2]
  args: [--own]
  env: [{name: OWN, value: "1"}]
  resources: {limits: {cpu: "2"}}
  cuda: {env: [{name: C, value: c}]}
  plugin: {env: [{name: P, value: p}]}
)";

TEST(OperatorValidation, MainContainer) {
  RecordProperty("holds", "validator.md #11 [TestTransformValidatorShared]");
  const Json daemonset = RenderDaemonSet(kState, kValidator);
  const Json& main = ContainerOf(daemonset, "nvidia-operator-validator");
  EXPECT_EQ(main["image"], "my.registry/x/validator:v2");
  EXPECT_EQ(main["imagePullPolicy"], "Always");
  EXPECT_EQ(main["args"], Json({"--own"}));
  EXPECT_THAT(EnvOf(main), ElementsAre("OWN=1"));
  EXPECT_EQ(main["resources"], Json({{"limits", {{"cpu", "2"}}}}));
  EXPECT_EQ(main["securityContext"]["runAsUser"], 0);
  EXPECT_EQ(daemonset["spec"]["template"]["spec"]["imagePullSecrets"],
            Json({{{"name", "pull-secret1"}}, {{"name", "pull-secret2"}}}));
}

TEST(OperatorValidation, VariablesOfTheCudaWorkload) {
  RecordProperty("holds", "validator.md #12 [TestTransformValidatorComponent]");
  const Json daemonset = RenderDaemonSet(kState, kValidator);
  EXPECT_THAT(EnvOf(ContainerOf(daemonset, "cuda-validation")),
              ElementsAre("WITH_WAIT=false", "COMPONENT=cuda", "NODE_NAME<-spec.nodeName",
                          "OPERATOR_NAMESPACE<-metadata.namespace",
                          "VALIDATOR_IMAGE=my.registry/x/validator:v2",
                          "VALIDATOR_IMAGE_PULL_POLICY=Always",
                          "VALIDATOR_IMAGE_PULL_SECRETS=pull-secret1,pull-secret2",
                          "VALIDATOR_RUNTIME_CLASS=nvidia", "C=c"));
}

TEST(OperatorValidation, VariablesOfThePluginsWorkload) {
  RecordProperty("holds", "validator.md #13 [TestTransformValidatorComponent]");
  const Json daemonset =
      RenderDaemonSet(kState, std::string("mig: {strategy: mixed}") + kValidator);
  const auto env = EnvOf(ContainerOf(daemonset, "plugin-validation"));
  ASSERT_FALSE(env.empty());
  EXPECT_THAT(env, Contains("MIG_STRATEGY=mixed"));
  EXPECT_THAT(env, Contains("VALIDATOR_RUNTIME_CLASS=nvidia"));
  EXPECT_EQ(env.back(), "P=p");
  EXPECT_FALSE(HasContainer(
      RenderDaemonSet(kState, std::string("devicePlugin: {enabled: false}") + kValidator),
      "plugin-validation"));
}

}  // namespace
}  // namespace pitcrew::desired::testing
