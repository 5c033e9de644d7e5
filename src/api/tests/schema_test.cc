// The schema of the embedded definitions (clusterpolicy-api.md sections 2 and 3).
#include "api/schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/definition.h"
#include "codec/yaml.h"

namespace pitcrew::api {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// What the schema requires of every policy.
constexpr const char* kRequired =
    "daemonsets: {}\ndcgm: {}\ndcgmExporter: {}\ndevicePlugin: {}\ndriver: {}\ngfd: {}\n"
    "nodeStatusExporter: {}\noperator: {}\ntoolkit: {}\n";

std::vector<std::string> Problems(const std::string& spec) {
  codec::Json policy = {{"spec", *codec::ParseYaml(kRequired)}};
  codec::ApplyMergePatch(policy["spec"], *codec::ParseYaml(spec));
  std::vector<std::string> lines;
  for (const FieldProblem& problem : CheckClusterPolicy(policy)) {
    lines.push_back(problem.path + ": " + problem.message);
  }
  return lines;
}

TEST(Schema, TheDefinitionsAreEmbedded) {
  bool found = false;
  for (const EmbeddedDefinition& definition : EmbeddedDefinitions()) {
    const auto parsed = codec::ParseYaml(definition.text, definition.file);
    ASSERT_TRUE(parsed) << parsed.error().ToString();
    found = found || codec::FindString(*parsed, {"spec", "names", "kind"}) == "ClusterPolicy";
  }
  EXPECT_TRUE(found);
}

TEST(Schema, AValidPolicyHasNoProblems) {
  EXPECT_THAT(Problems("{}"), IsEmpty());
  EXPECT_THAT(Problems(R"(
driver: {version: "580.1", env: [{name: A, value: b}], startupProbe: {periodSeconds: 3},
  resources: {limits: {cpu: 100m, memory: 1Gi}}, rdma: {enabled: true}}
daemonsets: {labels: {a: b}, tolerations: [{key: x, operator: Exists}],
  rollingUpdate: {maxUnavailable: "10%"}}
mig: {strategy: mixed}
sandboxWorkloads: null
)"),
              IsEmpty());
}

TEST(Schema, UnknownFieldsAreNamedWithWhatWasMeant) {
  EXPECT_THAT(Problems("{driver: {imagePullSecret: [a]}, devicePlugins: {}, mig: {stratgy: none}}"),
              ElementsAre("spec.devicePlugins: there is no such field; did you mean "
                          "\"devicePlugin\"?",
                          "spec.driver.imagePullSecret: there is no such field; did you mean "
                          "\"imagePullSecrets\"?",
                          "spec.mig.stratgy: there is no such field; did you mean \"strategy\"?"));
  EXPECT_THAT(Problems("{driver: {kubernetes: yes}}"),
              ElementsAre("spec.driver.kubernetes: there is no such field"));
}

TEST(Schema, WrongValuesAreNamed) {
  EXPECT_THAT(
      Problems("{mig: {strategy: mixd}, driver: {enabled: \"yes\", env: [{value: b}], "
               "startupProbe: {periodSeconds: 0}}}"),
      ElementsAre("spec.driver.enabled: is \"yes\", must be true or false",
                  "spec.driver.env[0].name: is required",
                  "spec.driver.startupProbe.periodSeconds: is 0, must be at least 1",
                  ::testing::StartsWith(
                      "spec.mig.strategy: is \"mixd\", must be one of \"none\", \"single\", "
                      "\"mixed\"; did you mean \"mixed\"?")));
}

TEST(Schema, RequiredBlocksAreMissed) {
  EXPECT_EQ(CheckClusterPolicy({{"spec", {{"driver", codec::Json::object()}}}}).size(), 8U);
}

TEST(Schema, NearestWordIsNoGuess) {
  EXPECT_EQ(NearestWord("usePreCompiled", {"usePrecompiled", "enabled"}), "usePrecompiled");
  EXPECT_EQ(NearestWord("zzz", {"usePrecompiled", "enabled"}), "");
}

}  // namespace
}  // namespace pitcrew::api
