#include "operator/definitions/definitions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pitcrew::gpu_operator {
namespace {

using codec::Json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Json Own() { return OwnDefinitions()->front(); }

Json& SpecOf(Json& definition) {
  return definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
                   ["properties"];
}

// What a cluster serves is compared by what policies can say.
TEST(CompareDefinitions, DescriptionsAndTheServersOwnFieldsDoNotCount) {
  Json served = Own();
  SpecOf(served)["driver"]["description"] = "upstream's words";
  served["status"] = {{"storedVersions", {"v1"}}};
  served["metadata"]["annotations"]["x"] = "y";
  EXPECT_EQ(CompareDefinitions(served, Own()), SchemaComparison{});
}

TEST(CompareDefinitions, AnOlderOneLacksFields) {
  Json served = Own();
  SpecOf(served).erase("gds");
  SpecOf(served)["driver"]["properties"].erase("secretEnv");
  const SchemaComparison comparison = CompareDefinitions(served, Own());
  EXPECT_EQ(comparison.state, SchemaState::kOlder);
  EXPECT_THAT(comparison.missing, ElementsAre("spec.driver.secretEnv", "spec.gds"));
  EXPECT_THAT(DescribeOutdated("x", comparison), HasSubstr("spec.driver.secretEnv, spec.gds"));
}

TEST(CompareDefinitions, ANewerOneHasMore) {
  Json served = Own();
  SpecOf(served)["future"] = {{"type", "object"}};
  EXPECT_EQ(CompareDefinitions(served, Own()).state, SchemaState::kNewer);
  EXPECT_EQ(DescribeOutdated("x", CompareDefinitions(served, Own())), "");
  SpecOf(served).erase("gds");
  EXPECT_EQ(CompareDefinitions(served, Own()).state, SchemaState::kDiverged);
}

TEST(CompareDefinitions, OtherRulesForTheSameFields) {
  Json served = Own();
  SpecOf(served)["driver"]["properties"]["kernelModuleType"]["default"] = "open";
  const SchemaComparison comparison = CompareDefinitions(served, Own());
  EXPECT_EQ(comparison.state, SchemaState::kOlder);
  EXPECT_THAT(comparison.missing, IsEmpty());
}

TEST(CompareDefinitions, AMissingVersionLacksAllOfIt) {
  Json served = Own();
  served["spec"]["versions"][0]["name"] = "v0";
  EXPECT_EQ(CompareDefinitions(served, Own()).state, SchemaState::kOlder);
}

TEST(DescribeOutdated, NamesAFew) {
  SchemaComparison comparison;
  for (char letter = 'a'; letter <= 'z'; ++letter) comparison.missing.emplace_back(1, letter);
  EXPECT_THAT(DescribeOutdated("x", comparison), HasSubstr("a, b, c, d, e, f, g, h, 18 more"));
}

}  // namespace
}  // namespace pitcrew::gpu_operator
