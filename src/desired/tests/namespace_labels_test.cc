// The operator's namespace gets its labels back.
#include "desired/namespace_labels.h"

#include <gtest/gtest.h>

namespace pitcrew::desired {
namespace {

using codec::Json;

constexpr const char* kEnforce = "pod-security.kubernetes.io/enforce";
constexpr const char* kMonitoring = "openshift.io/cluster-monitoring";

// A namespace whose labels `manager` has set.
Json NameSpace(const std::string& manager, const std::map<std::string, std::string>& labels,
               const Json& annotations = Json::object()) {
  Json fields = Json::object();
  for (const auto& [label, value] : labels) fields["f:" + label] = Json::object();
  return {{"metadata",
           {{"labels", labels},
            {"annotations", annotations},
            {"managedFields",
             {{{"manager", manager}, {"fieldsV1", {{"f:metadata", {{"f:labels", fields}}}}}}}}}}};
}

TEST(CleanUpNamespace, TakesOnlyWhatAnOperatorSet) {
  const std::map<std::string, std::string> labels{{kEnforce, "privileged"}, {kMonitoring, "true"}};
  const Changes gone{{kEnforce, std::nullopt}, {kMonitoring, std::nullopt}};
  EXPECT_EQ(CleanUpNamespace(NameSpace("nvidia-gpu-operator", labels)), gone);
  EXPECT_EQ(CleanUpNamespace(NameSpace("gpu-operator", labels)), gone);
  EXPECT_TRUE(CleanUpNamespace(NameSpace("kubectl-label", labels)).empty());
  EXPECT_TRUE(CleanUpNamespace(NameSpace("nvidia-gpu-operator", {{kEnforce, "baseline"}})).empty());
  EXPECT_TRUE(CleanUpNamespace({{"metadata", {{"labels", labels}}}}).empty());
}

// What stood there before the operator came is there again after it.
TEST(CleanUpNamespace, RestoresWhatWasReplaced) {
  const Json before = {{"metadata", {{"labels", {{kEnforce, "baseline"}, {"team", "a"}}}}}};
  const std::map<std::string, std::string> written{{kEnforce, "privileged"}, {kMonitoring, "true"}};
  const Json patch = NamespacePatch(written, before);
  EXPECT_EQ(patch["metadata"]["labels"], Json(written));
  const Json& annotations = patch["metadata"]["annotations"];
  EXPECT_EQ(annotations.size(), 1U);
  const Json current = NameSpace("nvidia-gpu-operator", written, annotations);
  EXPECT_EQ(CleanUpNamespace(current),
            (Changes{{kEnforce, "baseline"}, {kMonitoring, std::nullopt}}));
}

// A second policy replaces what the first has replaced: the first value counts.
TEST(CleanUpNamespace, RemembersTheFirstValue) {
  const Json annotations = {
      {kNamespaceLabelsBefore, R"({"pod-security.kubernetes.io/enforce":"baseline"})"}};
  const Json current = NameSpace("kubectl", {{kEnforce, "restricted"}}, annotations);
  EXPECT_FALSE(
      NamespacePatch({{kEnforce, "privileged"}}, current)["metadata"].contains("annotations"));
  const Json spoilt = NameSpace("nvidia-gpu-operator", {{kEnforce, "privileged"}},
                                {{kNamespaceLabelsBefore, "not JSON"}});
  EXPECT_EQ(CleanUpNamespace(spoilt), (Changes{{kEnforce, std::nullopt}}));
}

}  // namespace
}  // namespace pitcrew::desired
