// What a node offers to virtual machines and what Allocate answers: one folder per case below
// data/offers, from the files of the node to the answers.
#include <gtest/gtest.h>

#include "codec/yaml.h"
#include "node/sandbox_device_plugin/allocation.h"
#include "node/sandbox_device_plugin/machine.h"
#include "support_node_tree.h"
#include "tests/support/folders.h"
#include "tests/support/golden.h"

namespace pitcrew::node::sandbox_device_plugin {
namespace {

using codec::Json;

Json ToJson(const Resources& resources) {
  Json json = Json::object();
  for (const auto& [resource, devices] : resources) {
    for (const auto& device : devices) {
      Json entry = {{"id", device.id}};
      if (device.numa_node) entry["numa"] = *device.numa_node;
      if (!device.unfit.empty()) entry["unfit"] = device.unfit;
      json[resource].push_back(std::move(entry));
    }
  }
  return json;
}

Json ToJson(const base::Result<rpc::ContainerAllocation>& answer) {
  if (!answer) return {{"error", answer.error().message}};
  Json json = Json::object();
  if (!answer->envs.empty()) json["envs"] = answer->envs;
  EXPECT_TRUE(answer->mounts.empty());
  EXPECT_TRUE(answer->annotations.empty());
  EXPECT_TRUE(answer->cdi_devices.empty());
  for (const auto& device : answer->devices) {
    EXPECT_EQ(device.container_path, device.host_path);
    EXPECT_EQ(device.permissions, "mrw");
    json["devices"].push_back(device.host_path);
  }
  return json;
}

Naming NamingOf(const Json& input) {
  Naming naming;
  naming.client = input.value("client", "kubevirt") == "kata" ? Client::kKata : Client::kKubevirt;
  naming.gpu_alias = input.value("gpu_alias", "");
  naming.switch_alias = input.value("switch_alias", "");
  naming.names = input.contains("database") ? gpu::DeviceNames(input["database"].get<std::string>())
                                            : testing::ImageNames();
  return naming;
}

TEST(OffersGolden, Cases) {
  for (const auto& one : test_support::ReadGoldenCases(test_support::TestData() / "offers")) {
    SCOPED_TRACE(one.name + ": " + one.input.value("checks", std::string()));
    const testing::NodeTree tree(one.input);
    const auto known = vgpu_types::KnownTypes::Load(tree.folder().path() / "run/types.json");
    const auto machine = ReadMachine(tree.root(), tree.root(), known);
    ASSERT_TRUE(machine) << machine.error().ToString();
    const auto naming = NamingOf(one.input);
    const auto offers = ListOffers(*machine, naming, {});
    Json result = {{"resources", ToJson(offers.resources)}};
    auto warnings = machine->warnings;
    warnings.insert(warnings.end(), offers.warnings.begin(), offers.warnings.end());
    // Paths of this test's own tree are no part of what is told.
    for (auto& warning : warnings) {
      const auto at = warning.find(tree.folder().path().string());
      if (at != std::string::npos) warning.erase(at, tree.folder().path().string().size());
    }
    if (!warnings.empty()) result["warnings"] = warnings;
    for (const auto& asked : one.input.value("allocate", Json::array())) {
      const auto resource = asked.at("resource").get<std::string>();
      const auto found = offers.resources.find(resource);
      result["answers"].push_back(ToJson(Allocate(
          resource, found == offers.resources.end() ? std::vector<OfferedDevice>() : found->second,
          asked.at("ids").get<std::vector<std::string>>(), *machine, naming.client)));
    }
    EXPECT_EQ(codec::ToYamlText(result), codec::ToYamlText(one.expected));
  }
}

}  // namespace
}  // namespace pitcrew::node::sandbox_device_plugin
