// The labels of a node: one folder per case below data/labels. input.yaml holds the inventory,
// mig_strategy, config (the plugin's file), machine, pci_class (of every GPU, or one per GPU), vgpu
// (present with version and branch; "unknown"; missing: absent) and timestamp. With `only`,
// expected.yaml holds the labels that begin with one of these prefixes, else all of them.
#include <gtest/gtest.h>

#include "codec/yaml.h"
#include "node/feature_discovery/labels.h"
#include "tests/support/folders.h"
#include "tests/support/golden.h"
#include "tests/support/inventory_yaml.h"

namespace pitcrew::node::feature_discovery {
namespace {

using codec::Json;

std::uint32_t ParseClass(const Json& value) {
  return static_cast<std::uint32_t>(std::stoul(value.get<std::string>(), nullptr, 16));
}

base::Observed<Vgpu> VgpuFrom(const Json& input) {
  if (!input.contains("vgpu")) return base::Observed<Vgpu>::Missing();
  const auto& vgpu = input.at("vgpu");
  if (vgpu.is_string()) return base::Observed<Vgpu>::Unknown(base::Internal("Denied", "no"));
  return base::Observed<Vgpu>::Present(
      {.host_driver_version = vgpu.at("version"), .host_driver_branch = vgpu.at("branch")});
}

base::Result<Description> Answer(const Json& input) {
  Facts facts;
  TRY_ASSIGN(facts.gpus, test_support::InventoryFrom(input.at("inventory")));
  if (input.contains("machine")) facts.machine = input.at("machine").get<std::string>();
  if (input.contains("pci_class")) {
    const auto& classes = input.at("pci_class");
    for (std::size_t i = 0; i < facts.gpus.devices.size(); ++i) {
      facts.pci_classes[facts.gpus.devices[i].pci] =
          ParseClass(classes.is_array() ? classes.at(i) : classes);
    }
  }
  facts.vgpu = VgpuFrom(input);
  if (input.contains("timestamp")) facts.timestamp = input.at("timestamp").get<std::int64_t>();
  TRY_ASSIGN(
      const auto config,
      api::ParsePluginConfig(codec::ToYamlText(input.value("config", Json::object())), "config"));
  TRY_ASSIGN(const auto strategy,
             gpu::ParseMigStrategy(input.value("mig_strategy", std::string("none"))));
  return Describe(facts, strategy, config.sharing);
}

bool IsWanted(const std::string& name, const Json& input) {
  if (!input.contains("only")) return true;
  for (const auto& prefix : input.at("only")) {
    if (name.starts_with(prefix.get<std::string>())) return true;
  }
  return false;
}

TEST(LabelsGolden, Cases) {
  for (const auto& one : test_support::ReadGoldenCases(test_support::TestData() / "labels")) {
    SCOPED_TRACE(one.name + ": " + one.input.value("checks", std::string()));
    const auto answer = Answer(one.input);
    Json labels = Json::object();
    if (answer) {
      for (const auto& [name, value] : answer->labels) {
        if (IsWanted(name, one.input)) labels[name] = value;
      }
    } else {
      labels["error"] = answer.error().reason;
    }
    EXPECT_EQ(codec::ToYamlText(labels), codec::ToYamlText(one.expected));
  }
}

}  // namespace
}  // namespace pitcrew::node::feature_discovery
