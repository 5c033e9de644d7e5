// What Allocate answers: one folder per case below data/allocate.
#include <gtest/gtest.h>

#include "codec/yaml.h"
#include "node/device_plugin/allocation.h"
#include "tests/support/folders.h"
#include "tests/support/golden.h"
#include "tests/support/inventory_yaml.h"

namespace pitcrew::node::device_plugin {
namespace {

using codec::Json;

constexpr std::string_view kRequestId = "11111111-2222-4333-8444-555555555555";

codec::Json ToJson(const base::Result<rpc::ContainerAllocation>& answer) {
  if (!answer) return {{"error", answer.error().message}};
  Json json = Json::object();
  if (!answer->envs.empty()) json["envs"] = answer->envs;
  if (!answer->annotations.empty()) json["annotations"] = answer->annotations;
  if (!answer->cdi_devices.empty()) json["cdi_devices"] = answer->cdi_devices;
  for (const auto& mount : answer->mounts) {
    json["mounts"].push_back({{"container_path", mount.container_path},
                              {"host_path", mount.host_path},
                              {"read_only", mount.read_only}});
  }
  for (const auto& device : answer->devices) {
    json["devices"].push_back({{"container_path", device.container_path},
                               {"host_path", device.host_path},
                               {"permissions", device.permissions}});
  }
  return json;
}

// input.yaml: env (the plugin's environment), config (its file), inventory, resource, ids, and
// facts (control_nodes, cdi_modes, imex_channels).
base::Result<rpc::ContainerAllocation> Answer(const Json& input) {
  const auto env = input.value("env", Json::object());
  const char* words[] = {"nvidia-device-plugin"};
  TRY_ASSIGN(const auto options,
             ParseOptions(1, words, [&](const std::string& name) -> std::optional<std::string> {
               if (!env.contains(name)) return std::nullopt;
               return env.at(name).get<std::string>();
             }));
  TRY_ASSIGN(
      const auto config,
      api::ParsePluginConfig(codec::ToYamlText(input.value("config", Json::object())), "config"));
  TRY_ASSIGN(const auto settings, Merge(options->flags, config));
  TRY_ASSIGN(const auto inventory, test_support::InventoryFrom(input.at("inventory")));
  NodeFacts node;
  node.mig_minors = host::ParseMigMinors(input.value("mig_minors", std::string()));
  TRY_ASSIGN(const auto resources,
             ListResources(inventory, settings.mig_strategy, settings.sharing, node));
  const auto given = input.value("facts", Json::object());
  AllocationFacts facts;
  facts.control_nodes = given.value("control_nodes", std::vector<std::string>());
  facts.cdi_modes = given.value("cdi_modes", std::vector<std::string>());
  facts.imex_channels = given.value("imex_channels", std::vector<std::int64_t>());
  const auto resource = input.value("resource", std::string("nvidia.com/gpu"));
  return Allocate(resource, resources.devices.at(resource),
                  input.at("ids").get<std::vector<std::string>>(), settings, facts, kRequestId);
}

TEST(AllocateGolden, Cases) {
  for (const auto& one : test_support::ReadGoldenCases(test_support::TestData() / "allocate")) {
    SCOPED_TRACE(one.name + ": " + one.input.value("checks", std::string()));
    const auto answer = Answer(one.input);
    if (one.expected.contains("error_contains")) {
      ASSERT_FALSE(answer.has_value());
      EXPECT_NE(answer.error().message.find(one.expected.at("error_contains")), std::string::npos)
          << answer.error().message;
      continue;
    }
    EXPECT_EQ(codec::ToYamlText(ToJson(answer)), codec::ToYamlText(one.expected));
  }
}

}  // namespace
}  // namespace pitcrew::node::device_plugin
