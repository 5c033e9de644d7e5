#include "node/vgpu/configuration.h"

#include <fmt/format.h>

#include "codec/json.h"
#include "codec/yaml.h"
#include "node/mig/config_document.h"
#include "node/vgpu/type_name.h"

namespace pitcrew::node::vgpu {
namespace {

using codec::Json;
using mig::ConfigValue;

constexpr mig::ConfigKind kKind{.list = "vgpu-configs",
                                .name = "vgpu-config",
                                .title = "a vGPU configuration",
                                .reason = "InvalidVgpuConfig",
                                .empty_mapping_is_empty = true};

base::Status ReadVgpuDevices(const ConfigValue& value, ConfigEntry& entry) {
  constexpr std::string_view kWrong = "error validating values in 'vgpu-devices' field: ";
  if (value.json.is_null()) return {};
  if (!value.json.is_object()) {
    return value.Wrong("'vgpu-devices' must be a mapping of vGPU types to counts");
  }
  std::optional<bool> mig_backed;
  for (const auto& [name, member] : value.json.items()) {
    const ConfigValue count = value.Member(name, member);
    const auto type = TypeName::Parse(name);
    if (!type) {
      return count.Wrong(
          fmt::format("{}invalid format for '{}': {}", kWrong, name, type.error().message));
    }
    const auto number = member.is_null() ? 0 : mig::ReadConfigInt(member);
    if (!number) return count.Wrong(fmt::format("the count of '{}' must be a whole number", name));
    if (*number <= 0) {
      return count.Wrong(fmt::format("{}invalid count for '{}': {}", kWrong, name, *number));
    }
    if (mig_backed.value_or(type->is_mig_backed()) != type->is_mig_backed()) {
      return value.Wrong(fmt::format(
          "{}cannot mix time-sliced and MIG-backed vGPU devices on the same GPU", kWrong));
    }
    mig_backed = type->is_mig_backed();
    entry.vgpu_devices[name] = *number;
  }
  return {};
}

base::Result<ConfigEntry> ReadEntry(const ConfigValue& value) {
  if (!value.json.is_object() && !value.json.is_null()) {
    return value.Wrong("an entry must be a mapping with 'devices' and 'vgpu-devices'");
  }
  for (const auto* name : {"devices", "vgpu-devices"}) {
    if (!value.json.contains(name)) {
      return value.Wrong(fmt::format("missing required field: {}", name));
    }
  }
  ConfigEntry entry;
  for (const auto& [name, json] : value.json.items()) {
    const ConfigValue member = value.Member(name, json);
    if (name == "device-filter") {
      TRY_ASSIGN(auto filter, mig::ReadDeviceFilter(member));
      entry.device_filter = std::move(filter.ids);
    } else if (name == "devices") {
      TRY_ASSIGN(entry.devices, mig::ReadDevicePositions(member));
    } else if (name == "vgpu-devices") {
      TRY(ReadVgpuDevices(member, entry));
    } else {
      return member.Wrong(fmt::format(
          "unexpected field: {}; an entry has device-filter, devices and vgpu-devices", name));
    }
  }
  return entry;
}

Json ToJson(const Configuration& configuration) {
  Json document = {{"version", configuration.version}};
  for (const auto& [name, config] : configuration.configs) {
    Json& entries = document["vgpu-configs"][name] = Json::array();
    for (const auto& entry : config) {
      Json one = {{"devices", entry.devices ? Json(*entry.devices) : Json("all")},
                  {"vgpu-devices", Json::object()}};
      if (!entry.device_filter.empty()) one["device-filter"] = entry.device_filter;
      for (const auto& [type, count] : entry.vgpu_devices) one["vgpu-devices"][type] = count;
      entries.push_back(std::move(one));
    }
  }
  return document;
}

}  // namespace

base::Result<Configuration> ParseConfiguration(std::string_view text, std::string_view source) {
  return mig::ParseConfigFile(text, source, kKind, ReadEntry);
}

base::Result<Configuration> LoadConfiguration(const std::filesystem::path& file) {
  return mig::LoadConfigFile(file, kKind, ReadEntry);
}

base::Result<const NamedConfig*> SelectConfig(const Configuration& configuration,
                                              std::string_view name) {
  return mig::SelectConfigOf(configuration.configs, name, kKind);
}

std::string ToYamlText(const Configuration& configuration) {
  return codec::ToYamlText(ToJson(configuration));
}
std::string ToJsonText(const Configuration& configuration) {
  return codec::ToJsonText(ToJson(configuration));
}

}  // namespace pitcrew::node::vgpu
