#include "node/mig/configuration.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <iterator>
#include <limits>

#include "base/file.h"
#include "base/strings.h"
#include "codec/json.h"
#include "codec/yaml.h"
#include "gpu/mig_profile.h"

namespace pitcrew::node::mig {
namespace {

using codec::Json;

// A value of the document with its place, as a JSON pointer.
struct Value {
  const Json& json;
  const codec::YamlPlaces& places;
  std::string pointer;

  [[nodiscard]] Value Member(const std::string& name, const Json& member) const {
    const auto escaped = base::ReplaceAll(base::ReplaceAll(name, "~", "~0"), "/", "~1");
    return {member, places, pointer + "/" + escaped};
  }
  [[nodiscard]] std::unexpected<base::Error> Wrong(std::string_view what) const {
    return base::Fail(
        base::Invalid("InvalidMigConfig", fmt::format("{}: {}", places.Of(pointer), what)));
  }
};

base::Result<bool> ReadBool(const Value& value, std::string_view name) {
  if (value.json.is_null()) return false;  // Go's zero value
  if (!value.json.is_boolean()) {
    return value.Wrong(fmt::format("'{}' must be true or false, without quotes", name));
  }
  return value.json.get<bool>();
}

// Nothing for a number that is no int of the tools that read these files.
std::optional<int> ReadInt(const Json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() &&
      value.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<int>::max()}) {
    return std::nullopt;
  }
  const auto number = value.get<std::int64_t>();
  if (number < std::numeric_limits<int>::min() || number > std::numeric_limits<int>::max()) {
    return std::nullopt;
  }
  return static_cast<int>(number);
}

base::Status ReadFilter(const Value& value, ConfigEntry& entry) {
  if (value.json.is_null()) return {};
  if (value.json.is_string()) {
    entry.filter_is_text = true;
    entry.device_filter = {value.json.get<std::string>()};
    return {};
  }
  const auto is_text = [](const Json& element) { return element.is_string(); };
  if (!value.json.is_array() || !std::ranges::all_of(value.json, is_text)) {
    return value.Wrong(
        "'device-filter' must be a text or a list of texts; device ids need quotes: "
        "\"0x233010DE\"");
  }
  entry.device_filter = value.json.get<std::vector<std::string>>();
  return {};
}

base::Status ReadDevices(const Value& value, ConfigEntry& entry) {
  if (value.json.is_string() || value.json.is_null()) {
    const auto text = value.json.is_null() ? "" : value.json.get<std::string>();
    if (text == "all") return {};
    return value.Wrong(fmt::format(
        "invalid string input for 'devices': {}; it is all, or a list of positions such as [0, 1]",
        text));
  }
  if (!value.json.is_array()) {
    return value.Wrong("'devices' must be all, or a list of positions such as [0, 1]");
  }
  entry.devices.emplace();
  for (const Json& element : value.json) {
    const auto position = ReadInt(element);
    if (!position) return value.Wrong("every position in 'devices' must be a whole number");
    entry.devices->push_back(*position);
  }
  return {};
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
    const auto number = member.is_null() ? 0 : ReadInt(member);
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
      TRY(ReadFilter(member, entry));
    } else if (name == "devices") {
      TRY(ReadDevices(member, entry));
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

base::Result<NamedConfig> ReadNamedConfig(const Value& value, const std::string& name) {
  const bool is_list = value.json.is_array();
  if (value.json.is_null() || (is_list && value.json.empty())) {
    return value.Wrong(fmt::format("at least one entry in '{}' is required", name));
  }
  if (!is_list) return value.Wrong(fmt::format("'{}' must be a list of entries", name));
  NamedConfig config;
  for (std::size_t i = 0; i < value.json.size(); ++i) {
    TRY_ASSIGN(auto entry, ReadEntry(value.Member(std::to_string(i), value.json[i])));
    config.push_back(std::move(entry));
  }
  return config;
}

base::Status ReadConfigs(const Value& value, Configuration& configuration) {
  const bool is_mapping = value.json.is_object();
  if (value.json.is_null() || (is_mapping && value.json.empty())) {
    return value.Wrong("at least one entry in 'mig-configs' is required");
  }
  if (!is_mapping) return value.Wrong("'mig-configs' must be a mapping of names to lists");
  for (const auto& [name, member] : value.json.items()) {
    TRY_ASSIGN(configuration.configs[name], ReadNamedConfig(value.Member(name, member), name));
  }
  return {};
}

base::Result<Configuration> ReadDocument(const Value& value) {
  if (value.json.is_null()) return Configuration{};
  if (!value.json.is_object()) {
    return value.Wrong("a MIG configuration must be a mapping with 'version' and 'mig-configs'");
  }
  if (!value.json.contains("version") && !value.json.empty()) {
    return value.Wrong("unable to parse with missing 'version' field");
  }
  Configuration configuration;
  if (const auto* version = codec::Find(value.json, {"version"}); version != nullptr) {
    if (!version->is_string() && !version->is_null()) {
      return value.Member("version", *version).Wrong("'version' must be the text v1");
    }
    if (version->is_string()) configuration.version = version->get<std::string>();
  }
  if (configuration.version != "v1") {
    return value.Wrong(fmt::format("unknown version: {}; known is v1", configuration.version));
  }
  for (const auto& [name, member] : value.json.items()) {
    if (name == "version") continue;
    const Value inner = value.Member(name, member);
    if (name != "mig-configs") return inner.Wrong(fmt::format("unexpected field: {}", name));
    TRY(ReadConfigs(inner, configuration));
  }
  return configuration;
}

base::Result<std::string> ReadText(const std::filesystem::path& file) {
  if (file != "-") return base::ReadFile(file);
  std::string text(std::istreambuf_iterator<char>(std::cin), {});
  if (!std::cin.bad()) return text;
  return base::Fail(base::Internal("ReadFailed", "standard input cannot be read"));
}

}  // namespace

bool ConfigEntry::IsFor(const DeviceId& id, int position) const {
  if (!id.IsMeantByAny(device_filter)) return false;
  return !devices || std::ranges::find(*devices, position) != devices->end();
}

base::Result<Configuration> ParseConfiguration(std::string_view text, std::string_view source) {
  codec::YamlPlaces places;
  TRY_ASSIGN(const Json document, codec::ParseYaml(text, source, places));
  return ReadDocument({document, places, ""});
}

base::Result<Configuration> LoadConfiguration(const std::filesystem::path& file) {
  const auto text = ReadText(file);
  if (!text) return base::Fail(text.error().Within("read error"));
  auto configuration = ParseConfiguration(*text, file == "-" ? "standard input" : file.string());
  if (!configuration) return base::Fail(configuration.error().Within("unmarshal error"));
  return configuration;
}

base::Result<const NamedConfig*> SelectConfig(const Configuration& configuration,
                                              std::string_view name) {
  const auto& configs = configuration.configs;
  std::vector<std::string> names;
  for (const auto& [known, entries] : configs) names.push_back(known);
  const auto known = names.empty() ? "the file has none" : "there are " + base::Join(names, ", ");
  if (name.empty() && configs.size() == 1) return &configs.begin()->second;
  if (name.empty() && configs.size() > 1) {
    return base::Fail(base::Invalid(
        "NoSuchConfig",
        fmt::format(
            "missing required flag 'selected-config' when more than one config available; {}",
            known)));
  }
  const auto found = configs.find(std::string(name));
  if (found != configs.end()) return &found->second;
  return base::Fail(base::Invalid(
      "NoSuchConfig", fmt::format("selected mig-config not present: {}; {}", name, known)));
}

}  // namespace pitcrew::node::mig
