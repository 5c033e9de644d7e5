#include "node/mig/configuration.h"

#include <fmt/format.h>

#include <algorithm>

#include "codec/json.h"
#include "gpu/mig_profile.h"
#include "node/mig/config_document.h"

namespace pitcrew::node::mig {
namespace {

using codec::Json;
using Value = ConfigValue;

constexpr ConfigKind kKind{.list = "mig-configs",
                           .name = "mig-config",
                           .title = "a MIG configuration",
                           .reason = "InvalidMigConfig"};

base::Result<bool> ReadBool(const Value& value, std::string_view name) {
  if (value.json.is_null()) return false;  // Go's zero value
  if (!value.json.is_boolean()) {
    return value.Wrong(fmt::format("'{}' must be true or false, without quotes", name));
  }
  return value.json.get<bool>();
}

base::Status ReadMigDevices(const Value& value, ConfigEntry& entry) {
  constexpr std::string_view kWrong = "error validating values in 'mig-devices' field: ";
  if (!value.json.is_object()) {
    return value.Wrong("'mig-devices' must be a mapping of profiles to counts");
  }
  for (const auto& [name, member] : value.json.items()) {
    const Value count = value.Member(name, member);
    if (const auto profile = gpu::MigProfile::Parse(name); !profile) {
      return count.Wrong(fmt::format("{}{}", kWrong, profile.error().message));
    }
    const auto number = member.is_null() ? 0 : ReadConfigInt(member);
    if (!number) return count.Wrong(fmt::format("the count of '{}' must be a whole number", name));
    if (*number < 0) {
      return count.Wrong(fmt::format("{}invalid count for '{}': {}", kWrong, name, *number));
    }
    entry.mig_devices[name] = *number;
  }
  const auto is_zero = [](const auto& count) { return count.second == 0; };
  if (!entry.mig_devices.empty() && std::ranges::all_of(entry.mig_devices, is_zero)) {
    return value.Wrong(fmt::format("{}all counts for all MigProfiles are 0", kWrong));
  }
  return {};
}

base::Result<ConfigEntry> ReadEntry(const Value& value) {
  if (!value.json.is_object() && !value.json.is_null()) {
    return value.Wrong("an entry must be a mapping with 'devices' and 'mig-enabled'");
  }
  for (const auto* name : {"devices", "mig-enabled"}) {
    if (!value.json.contains(name)) {
      return value.Wrong(fmt::format("missing required field: {}", name));
    }
  }
  ConfigEntry entry;
  bool has_devices = false;
  for (const auto& [name, json] : value.json.items()) {
    const Value member = value.Member(name, json);
    if (name == "device-filter") {
      TRY_ASSIGN(auto filter, ReadDeviceFilter(member));
      entry.device_filter = std::move(filter.ids);
      entry.filter_is_text = filter.is_text;
    } else if (name == "devices") {
      TRY_ASSIGN(entry.devices, ReadDevicePositions(member));
    } else if (name == "mig-enabled") {
      TRY_ASSIGN(entry.mig_enabled, ReadBool(member, name));
    } else if (name != "mig-devices") {
      return member.Wrong(
          fmt::format("unexpected field: {}; an entry has device-filter, devices, "
                      "mig-enabled and mig-devices",
                      name));
    } else if (!json.is_null()) {
      has_devices = true;
      TRY(ReadMigDevices(member, entry));
    }
  }
  if (entry.mig_enabled && !has_devices) {
    return value.Wrong("missing required field 'mig-devices' when 'mig-enabled' is true");
  }
  if (!entry.mig_enabled && !entry.mig_devices.empty()) {
    return value.Wrong("MIG devices included when 'mig-enabled' is false");
  }
  return entry;
}

}  // namespace

base::Result<Configuration> ParseConfiguration(std::string_view text, std::string_view source) {
  return ParseConfigFile(text, source, kKind, ReadEntry);
}

base::Result<Configuration> LoadConfiguration(const std::filesystem::path& file) {
  return LoadConfigFile(file, kKind, ReadEntry);
}

base::Result<const NamedConfig*> SelectConfig(const Configuration& configuration,
                                              std::string_view name) {
  return SelectConfigOf(configuration.configs, name, kKind);
}

}  // namespace pitcrew::node::mig
