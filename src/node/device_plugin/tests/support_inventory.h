// What a test says in short: a node's GPUs as YAML, and the devices of a resource by their ids.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "codec/yaml.h"
#include "node/device_plugin/resources.h"
#include "tests/support/inventory_yaml.h"

namespace pitcrew::node::device_plugin {

inline gpu::Inventory Inventory(std::string_view yaml) {
  auto inventory = test_support::InventoryFrom(codec::ParseYaml(yaml).value());
  EXPECT_TRUE(inventory.has_value()) << inventory.error().ToString();
  return *std::move(inventory);
}

inline std::vector<std::string> Ids(const std::vector<OfferedDevice>& devices) {
  std::vector<std::string> ids;
  for (const auto& device : devices) ids.push_back(device.id);
  return ids;
}

}  // namespace pitcrew::node::device_plugin
