#include "node/mig/config_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <iterator>
#include <limits>

#include "base/file.h"
#include "base/strings.h"

namespace pitcrew::node::mig {
namespace {

using codec::Json;

base::Status ReadEntries(const ConfigValue& value, const std::string& name,
                         const ReadConfigEntry& read) {
  const bool is_list = value.json.is_array();
  if (value.json.is_null() || (is_list && value.json.empty())) {
    return value.Wrong(fmt::format("at least one entry in '{}' is required", name));
  }
  if (!is_list) return value.Wrong(fmt::format("'{}' must be a list of entries", name));
  for (std::size_t i = 0; i < value.json.size(); ++i) {
    TRY(read(name, value.Member(std::to_string(i), value.json[i])));
  }
  return {};
}

base::Status ReadConfigs(const ConfigValue& value, const ReadConfigEntry& read) {
  const bool is_mapping = value.json.is_object();
  const auto list = value.kind.list;
  if (value.json.is_null() || (is_mapping && value.json.empty())) {
    return value.Wrong(fmt::format("at least one entry in '{}' is required", list));
  }
  if (!is_mapping)
    return value.Wrong(fmt::format("'{}' must be a mapping of names to lists", list));
  for (const auto& [name, member] : value.json.items()) {
    TRY(ReadEntries(value.Member(name, member), name, read));
  }
  return {};
}

base::Result<std::string> ReadVersion(const ConfigValue& value) {
  if (!value.json.contains("version") && !value.json.empty()) {
    return value.Wrong("unable to parse with missing 'version' field");
  }
  std::string version;
  if (const auto* found = codec::Find(value.json, {"version"}); found != nullptr) {
    if (!found->is_string() && !found->is_null()) {
      return value.Member("version", *found).Wrong("'version' must be the text v1");
    }
    if (found->is_string()) version = found->get<std::string>();
  }
  if (version == "v1") return version;
  return value.Wrong(fmt::format("unknown version: {}; known is v1", version));
}

}  // namespace

ConfigValue ConfigValue::Member(const std::string& name, const Json& member) const {
  const auto escaped = base::ReplaceAll(base::ReplaceAll(name, "~", "~0"), "/", "~1");
  return {member, places, pointer + "/" + escaped, kind};
}

std::unexpected<base::Error> ConfigValue::Wrong(std::string_view what) const {
  return base::Fail(
      base::Invalid(std::string(kind.reason), fmt::format("{}: {}", places.Of(pointer), what)));
}

std::optional<int> ReadConfigInt(const Json& value) {
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

base::Result<DeviceFilter> ReadDeviceFilter(const ConfigValue& value) {
  if (value.json.is_null()) return DeviceFilter{};
  if (value.json.is_string()) {
    return DeviceFilter{.ids = {value.json.get<std::string>()}, .is_text = true};
  }
  const auto is_text = [](const Json& element) { return element.is_string(); };
  if (!value.json.is_array() || !std::ranges::all_of(value.json, is_text)) {
    return value.Wrong(
        "'device-filter' must be a text or a list of texts; device ids need quotes: "
        "\"0x233010DE\"");
  }
  return DeviceFilter{.ids = value.json.get<std::vector<std::string>>()};
}

base::Result<std::optional<std::vector<int>>> ReadDevicePositions(const ConfigValue& value) {
  if (value.json.is_string() || value.json.is_null()) {
    const auto text = value.json.is_null() ? "" : value.json.get<std::string>();
    if (text == "all") return std::nullopt;
    return value.Wrong(fmt::format(
        "invalid string input for 'devices': {}; it is all, or a list of positions such as [0, 1]",
        text));
  }
  if (!value.json.is_array()) {
    return value.Wrong("'devices' must be all, or a list of positions such as [0, 1]");
  }
  std::vector<int> positions;
  for (const Json& element : value.json) {
    const auto position = ReadConfigInt(element);
    if (!position) return value.Wrong("every position in 'devices' must be a whole number");
    positions.push_back(*position);
  }
  return positions;
}

base::Result<std::string> ReadConfigDocument(std::string_view text, std::string_view source,
                                             const ConfigKind& kind, const ReadConfigEntry& read) {
  codec::YamlPlaces places;
  TRY_ASSIGN(const Json document, codec::ParseYaml(text, source, places));
  const ConfigValue value{document, places, "", kind};
  if (document.is_null()) return std::string();
  if (!document.is_object()) {
    return value.Wrong(
        fmt::format("{} must be a mapping with 'version' and '{}'", kind.title, kind.list));
  }
  if (document.empty() && kind.empty_mapping_is_empty) return std::string();
  TRY_ASSIGN(auto version, ReadVersion(value));
  for (const auto& [name, member] : document.items()) {
    if (name == "version") continue;
    const ConfigValue inner = value.Member(name, member);
    if (name != kind.list) return inner.Wrong(fmt::format("unexpected field: {}", name));
    TRY(ReadConfigs(inner, read));
  }
  return version;
}

base::Result<std::string> ReadConfigText(const std::filesystem::path& file) {
  if (file != "-") return base::ReadFile(file);
  std::string text(std::istreambuf_iterator<char>(std::cin), {});
  if (!std::cin.bad()) return text;
  return base::Fail(base::Internal("ReadFailed", "standard input cannot be read"));
}

bool IsForGpu(const std::vector<std::string>& device_filter,
              const std::optional<std::vector<int>>& devices, const DeviceId& id, int position) {
  if (!id.IsMeantByAny(device_filter)) return false;
  return !devices || std::ranges::find(*devices, position) != devices->end();
}

base::Result<std::string> SelectConfigName(const std::vector<std::string>& names,
                                           std::string_view wanted, const ConfigKind& kind) {
  if (wanted.empty() && names.size() == 1) return names.front();
  if (std::ranges::find(names, wanted) != names.end()) return std::string(wanted);
  // Upstream's default file has 711 of them.
  constexpr std::size_t kMostNames = 24;
  std::vector<std::string> shown(
      names.begin(),
      names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kMostNames)));
  std::string known = names.empty() ? "the file has none" : "there are " + base::Join(shown, ", ");
  if (names.size() > kMostNames) known += fmt::format(" and {} more", names.size() - kMostNames);
  if (wanted.empty() && names.size() > 1) {
    return base::Fail(base::Invalid(
        "NoSuchConfig",
        fmt::format(
            "missing required flag 'selected-config' when more than one config available; {}",
            known)));
  }
  return base::Fail(base::Invalid(
      "NoSuchConfig", fmt::format("selected {} not present: {}; {}", kind.name, wanted, known)));
}

}  // namespace pitcrew::node::mig
