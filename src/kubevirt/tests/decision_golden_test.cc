// What is permitted, and what no longer is: one folder per case below data.
#include <gtest/gtest.h>

#include "codec/yaml.h"
#include "kubevirt/decision.h"
#include "tests/support/folders.h"
#include "tests/support/golden.h"

namespace pitcrew::kubevirt {
namespace {

using codec::Json;

gpu::DeviceNames Names() {
  auto names = gpu::DeviceNames::Load(test_support::SourceFolder() / "deploy/image/pci.ids");
  return names ? *std::move(names) : gpu::DeviceNames();
}

// "unknown", or the resources; absent: there are no virtual machines.
base::Observed<std::set<std::string>> NamedOf(const Json& input) {
  using Observed = base::Observed<std::set<std::string>>;
  if (!input.contains("named")) return Observed::Missing();
  if (input["named"] == "unknown") {
    return Observed::Unknown(base::Unavailable("NotRead", "virtual machines cannot be read"));
  }
  return Observed::Present(input["named"].get<std::set<std::string>>());
}

Facts FactsOf(const Json& input) {
  Facts facts;
  facts.sandbox = {.enabled = true, .default_workload = "container", .mode = "kubevirt"};
  facts.named = NamedOf(input);
  for (const auto& node : input.value("nodes", Json::array())) {
    if (HasPluginLabel(node)) facts.nodes.push_back(ReadMachineNode(node));
  }
  return facts;
}

Json ListOf(const std::vector<Entry>& entries) {
  Json list = Json::array();
  for (const Entry& entry : entries) list.push_back(entry.selector + " " + entry.resource);
  return list;
}

Json Show(const base::Result<Decision>& decision) {
  if (!decision) return {{"refused", decision.error().reason}};
  Json shown = Json::object();
  if (decision->patch) shown["patch"] = *decision->patch;
  if (!decision->unused.empty()) shown["unused"] = ListOf(decision->unused);
  for (const Obstacle& obstacle : decision->obstacles) {
    shown["obstacles"].push_back(obstacle.reason + ": " + obstacle.message);
  }
  return shown;
}

// A second look changes nothing, and what uninstalls brings the former state back.
void CheckAfter(const Json& input, const Json& before, Form form, const Decision& decision) {
  if (!decision.patch) return;
  Json after = before;
  codec::ApplyMergePatch(after, *decision.patch);
  const auto again = Decide(after, form, FactsOf(input), Names(), {});
  ASSERT_TRUE(again) << again.error().ToString();
  EXPECT_FALSE(again->patch) << codec::ToJsonText(*again->patch);
  if (HasRecord(before)) return;
  const auto restored = DecideRestore(after, form);
  ASSERT_TRUE(restored && restored->patch);
  codec::ApplyMergePatch(after, *restored->patch);
  if (!before["metadata"].contains("annotations")) after["metadata"].erase("annotations");
  EXPECT_EQ(codec::ToYamlText(after), codec::ToYamlText(before));
}

// input.yaml: object, nodes, named (NamedOf), expired (resources), restore. expected.yaml: patch,
// unused, obstacles, or refused.
TEST(DecisionGolden, Cases) {
  for (const auto& one : test_support::ReadGoldenCases(test_support::TestData())) {
    SCOPED_TRACE(one.name + ": " + one.input.value("checks", std::string()));
    const Json& object = one.input.at("object");
    const auto form = FormOf(object);
    ASSERT_TRUE(form);
    const auto expired = one.input.value("expired", std::set<std::string>{});
    const auto decision = one.input.value("restore", false)
                              ? DecideRestore(object, *form)
                              : Decide(object, *form, FactsOf(one.input), Names(), expired);
    EXPECT_EQ(codec::ToYamlText(Show(decision)), codec::ToYamlText(one.expected));
    if (decision && !one.input.value("restore", false)) {
      CheckAfter(one.input, object, *form, *decision);
    }
  }
}

}  // namespace
}  // namespace pitcrew::kubevirt
