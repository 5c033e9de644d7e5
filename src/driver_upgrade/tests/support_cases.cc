#include "support_cases.h"

#include <map>

#include "api/labels.h"
#include "base/file.h"
#include "codec/yaml.h"
#include "tests/support/folders.h"

namespace pitcrew::driver_upgrade::testing {
namespace {

const std::map<std::string, std::string_view>& BriefKeys() {
  static const std::map<std::string, std::string_view> kKeys = {
      {"initially-unschedulable", api::kUpgradeInitiallyUnschedulableAnnotation},
      {"jobs-start", api::kUpgradePodCompletionStartAnnotation},
      {"validation-start", api::kUpgradeValidationStartAnnotation},
      {"requested", api::kUpgradeRequestedAnnotation},
      {"safe-load", api::kUpgradeSafeLoadAnnotation},
      {"turn", api::kUpgradeTurnAnnotation},
      {"last", api::kUpgradeLastAnnotation},
      {"metrics", api::kUpgradeMetricsAnnotation},
      {"failed-revision", api::kUpgradeFailedRevisionAnnotation}};
  return kKeys;
}

}  // namespace

std::string KeyNamed(const std::string& brief) {
  const auto found = BriefKeys().find(brief);
  EXPECT_NE(found, BriefKeys().end()) << brief;
  return found == BriefKeys().end() ? brief : std::string(found->second);
}

std::string BriefOf(const std::string& key) {
  for (const auto& [brief, full] : BriefKeys()) {
    if (full == key) return brief;
  }
  return key;
}

api::UpgradePolicy PolicyOf(const Json& upgrade_policy) {
  const auto policy =
      api::ReadClusterPolicy({{"apiVersion", "nvidia.com/v1"},
                              {"kind", "ClusterPolicy"},
                              {"metadata", {{"name", "cluster-policy"}}},
                              {"spec", {{"driver", {{"upgradePolicy", upgrade_policy}}}}}});
  EXPECT_TRUE(policy) << policy.error().ToString();
  EXPECT_TRUE(policy->problems.empty()) << policy->problems.front().message;
  return policy->driver.upgrade_policy;
}

Json NodeOf(const Json& brief) {
  Json node = {{"metadata",
                {{"name", brief.value("name", "gpu-1")},
                 {"resourceVersion", "7"},
                 {"labels", brief.value("labels", Json::object())}}}};
  if (brief.contains("state")) node["metadata"]["labels"][api::kUpgradeState] = brief["state"];
  const Json annotations = brief.value("annotations", Json::object());
  for (const auto& [name, value] : annotations.items()) {
    node["metadata"]["annotations"][KeyNamed(name)] = value;
  }
  if (brief.value("unschedulable", false)) node["spec"]["unschedulable"] = true;
  if (brief.contains("ready")) {
    node["status"]["conditions"] = {
        {{"type", "Ready"}, {"status", brief["ready"] == true ? "True" : "False"}}};
  }
  return node;
}

void RunCases(const std::string& kind, const std::function<Json(const Json& given)>& decide) {
  int cases = 0;
  for (const auto& folder :
       std::filesystem::directory_iterator(test_support::TestData().string() + "/" + kind)) {
    const auto text = base::ReadFile((folder.path() / "expected.yaml").string());
    ASSERT_TRUE(text) << text.error().ToString();
    const auto document = codec::ParseYaml(*text);
    ASSERT_TRUE(document) << document.error().ToString();
    for (const Json& given : (*document)["cases"]) {
      SCOPED_TRACE(folder.path().filename().string() + ": " + given.value("name", "?"));
      ++cases;
      EXPECT_EQ(codec::ToJsonText(decide(given)),
                codec::ToJsonText(given.value("then", Json::object())));
    }
  }
  EXPECT_GT(cases, 0);
}

}  // namespace pitcrew::driver_upgrade::testing
