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

std::vector<std::string> ProblemsOf(const std::string& schema, const std::string& value) {
  std::vector<FieldProblem> problems;
  CheckAgainstSchema(*codec::ParseYaml(schema), *codec::ParseYaml("v: " + value)->find("v"), "x",
                     problems);
  std::vector<std::string> lines;
  for (const FieldProblem& problem : problems) lines.push_back(problem.path + problem.message);
  return lines;
}

TEST(Schema, RangesOfNumbers) {
  const std::string range = "{type: integer, minimum: 1, maximum: 5}";
  for (const char* value : {"1", "5", "null"}) EXPECT_THAT(ProblemsOf(range, value), IsEmpty());
  EXPECT_THAT(ProblemsOf(range, "0"), ElementsAre("xis 0, must be at least 1"));
  EXPECT_THAT(ProblemsOf(range, "6"), ElementsAre("xis 6, must be at most 5"));
  EXPECT_THAT(ProblemsOf(range, "1.5"), ElementsAre("xis 1.5, must be a whole number"));
  EXPECT_THAT(ProblemsOf("{type: number}", "1.5"), IsEmpty());
  const std::string narrow = "{type: integer, format: int32}";
  for (const char* value : {"2147483647", "-2147483648"}) {
    EXPECT_THAT(ProblemsOf(narrow, value), IsEmpty()) << value;
  }
  for (const std::string value : {"2147483648", "-2147483649"}) {
    EXPECT_THAT(ProblemsOf(narrow, value), ElementsAre("xis " + value + ", must fit into 32 bits"));
    EXPECT_THAT(ProblemsOf("{type: integer, format: int64}", value), IsEmpty());
  }
}

TEST(Schema, LengthsAndPatternsOfTexts) {
  const std::string length = "{type: string, minLength: 2, maxLength: 3}";
  for (const char* value : {"ab", "abc"}) EXPECT_THAT(ProblemsOf(length, value), IsEmpty());
  EXPECT_THAT(ProblemsOf(length, "a"), ElementsAre("xmust not be so short"));
  EXPECT_THAT(ProblemsOf(length, "abcd"), ElementsAre("xis longer than 3 characters"));
  EXPECT_THAT(ProblemsOf("{type: string, maxLength: 3}", "''"), IsEmpty());
  EXPECT_THAT(ProblemsOf("{type: string, minLength: 2}", "abcd"), IsEmpty());
  const std::string pattern = "{type: string, pattern: '^v[0-9]+$'}";
  EXPECT_THAT(ProblemsOf(pattern, "v12"), IsEmpty());
  EXPECT_THAT(ProblemsOf(pattern, "'12'"), ElementsAre("xis \"12\", must match ^v[0-9]+$"));
  // The server knows forms that are not known here.
  EXPECT_THAT(ProblemsOf("{type: string, pattern: '(?i)v'}", "w"), IsEmpty());
  const std::string either = "{x-kubernetes-int-or-string: true, pattern: '^[0-9]+%$'}";
  for (const char* value : {"7", "7%"}) EXPECT_THAT(ProblemsOf(either, value), IsEmpty());
  EXPECT_THAT(ProblemsOf(either, "x"), ElementsAre("xis \"x\", must match ^[0-9]+%$"));
  for (const char* value : {"1.5", "[7]", "true"}) {
    EXPECT_THAT(ProblemsOf(either, value), ElementsAre("xmust be a string or a whole number"));
  }
}

TEST(Schema, MembersOfObjects) {
  const std::string object =
      "{type: object, required: [a, b], properties: {a: {type: string}, b: {type: string, "
      "default: z}, c: {type: array, items: {type: boolean}}}}";
  EXPECT_THAT(ProblemsOf(object, "{a: x}"), IsEmpty());
  EXPECT_THAT(ProblemsOf(object, "{a: null}"), ElementsAre("x.ais required"));
  EXPECT_THAT(ProblemsOf(object, "{a: x, c: [true, 1, null]}"),
              ElementsAre("x.c[1]is 1, must be true or false"));
  EXPECT_THAT(ProblemsOf(object, "{a: x, other: 1}"), ElementsAre("x.otherthere is no such field"));
  EXPECT_THAT(ProblemsOf(object, "{a: x, other: null}"), IsEmpty());
  EXPECT_THAT(ProblemsOf("{type: object, additionalProperties: {type: string}}", "{k: v, l: 1}"),
              ElementsAre("x.lis 1, must be a string"));
  EXPECT_THAT(ProblemsOf("{type: object, properties: {a: {type: string}}, "
                         "x-kubernetes-preserve-unknown-fields: true}",
                         "{b: 1}"),
              IsEmpty());
  EXPECT_THAT(ProblemsOf("{type: object}", "{b: 1}"), IsEmpty());
  EXPECT_THAT(ProblemsOf("{type: array}", "{}"), ElementsAre("xis object, must be a list"));
}

TEST(Schema, RequiredBlocksAreMissed) {
  EXPECT_EQ(CheckClusterPolicy({{"spec", {{"driver", codec::Json::object()}}}}).size(), 8U);
}

TEST(Schema, NearestWordIsNoGuess) {
  EXPECT_EQ(NearestWord("usePreCompiled", {"usePrecompiled", "enabled"}), "usePrecompiled");
  EXPECT_EQ(NearestWord("zzz", {"usePrecompiled", "enabled"}), "");
  EXPECT_EQ(NearestWord("abc", {"abd", "abe"}), "abd") << "of equally near ones the first";
  EXPECT_EQ(NearestWord("ab", {"a"}), "a");
  EXPECT_EQ(NearestWord("abcdef", {"abcd"}), "abcd");
  EXPECT_EQ(NearestWord("abcdef", {"abc"}), "") << "more than a third";
  EXPECT_EQ(NearestWord("abc", {}), "");
}

std::vector<std::string> DriverSchemaProblems(const std::string& spec,
                                              const std::string& stored = "") {
  const codec::Json object = {{"spec", *codec::ParseYaml(spec)}};
  const codec::Json before = {{"spec", stored.empty() ? codec::Json() : *codec::ParseYaml(stored)}};
  std::vector<std::string> lines;
  for (const FieldProblem& problem :
       CheckNvidiaDriver(object, stored.empty() ? nullptr : &before)) {
    lines.push_back(problem.path + ": " + problem.message);
  }
  return lines;
}

TEST(Schema, NvidiaDriversHaveTheirOwn) {
  EXPECT_THAT(
      DriverSchemaProblems("{version: '580.1', nodeSelector: {pool: a}, usePrecompiled: true}"),
      IsEmpty());
  EXPECT_THAT(
      DriverSchemaProblems("{driverType: vgp, enabled: true, nodeSelektor: {a: b}, version: 580}"),
      ElementsAre("spec.driverType: is \"vgp\", must be one of \"gpu\", \"vgpu\", "
                  "\"vgpu-host-manager\"; did you mean \"vgpu\"?",
                  "spec.enabled: there is no such field",
                  "spec.nodeSelektor: there is no such field; did you mean \"nodeSelector\"?",
                  "spec.version: is 580, must be a string"));
}

// clusterpolicy-api.md section 3: driverType and usePrecompiled are immutable.
TEST(Schema, FieldsOfNvidiaDriversThatCannotBeChanged) {
  RecordProperty("holds", "clusterpolicy-api.md #19");
  EXPECT_THAT(DriverSchemaProblems("{driverType: vgpu, usePrecompiled: true}",
                                   "{usePrecompiled: false, version: '1'}"),
              ElementsAre("spec.driverType: is \"gpu\" in the cluster and cannot be changed; "
                          "create another NVIDIADriver instead",
                          "spec.usePrecompiled: is false in the cluster and cannot be changed; "
                          "create another NVIDIADriver instead"));
  EXPECT_THAT(DriverSchemaProblems("{driverType: gpu, usePrecompiled: true}", "{version: '1'}"),
              IsEmpty())
      << "what was left out may be said";
}

}  // namespace
}  // namespace pitcrew::api
