// Configurations as text.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "base/ascii.h"
#include "codec/json.h"
#include "codec/yaml_scalar.h"
#include "node/mig/configuration.h"

namespace pitcrew::node::mig {
namespace {

using base::IsDigit;
using base::IsLetter;

// The number that begins at `at`, without its leading zeros.
std::string_view NumberAt(std::string_view text, std::size_t at) {
  std::size_t end = at;
  while (end < text.size() && IsDigit(text[end])) ++end;
  auto digits = text.substr(at, end - at);
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size()));
  return digits;
}

// Natural order: numbers by their value, letters after everything else.
bool Before(std::string_view a, std::string_view b) {
  const auto [at_a, at_b] = std::ranges::mismatch(a, b);
  const auto at = static_cast<std::size_t>(at_a - a.begin());
  if (at_a == a.end() || at_b == b.end()) return a.size() < b.size();
  if (IsLetter(*at_a) != IsLetter(*at_b)) return IsLetter(*at_b);
  std::size_t number = at;  // where the numbers that differ begin
  while (number > 0 && IsDigit(a[number - 1])) --number;
  const auto left = NumberAt(a, number);
  const auto right = NumberAt(b, number);
  if (IsDigit(*at_a) && IsDigit(*at_b) && left != right) {
    return left.size() != right.size() ? left.size() < right.size() : left < right;
  }
  return *at_a < *at_b;
}

// Names of a map in natural order.
template <class T>
std::vector<std::string> Names(const std::map<std::string, T>& map) {
  std::vector<std::string> names;
  for (const auto& [name, value] : map) names.push_back(name);
  std::ranges::sort(names, Before);
  return names;
}

// In double quotes as both JSON and YAML read them: YAML takes some characters beyond ASCII for
// line breaks and refuses others, so those of up to 16 bits are escaped.
std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (std::size_t at = 0; at < text.size();) {
    const auto first = static_cast<unsigned char>(text[at]);
    const std::size_t length = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    std::uint32_t point = length == 1 ? first : first & (0x7fU >> length);
    for (std::size_t i = 1; i < length && at + i < text.size(); ++i) {
      point = point << 6 | (static_cast<unsigned char>(text[at + i]) & 0x3fU);
    }
    if (point == '"' || point == '\\') {
      quoted += {'\\', static_cast<char>(point)};
    } else if ((point >= 0x20 && point < 0x7f) || length == 4) {
      quoted += text.substr(at, length);
    } else {
      quoted += fmt::format("\\u{:04x}", point);
    }
    at += length;
  }
  return quoted + '"';
}

// Plain where YAML reads the same text back, else quoted.
std::string Scalar(const std::string& text) {
  constexpr std::string_view kPlain = "+-._";
  const bool is_plain = !text.empty() && std::isalnum(static_cast<unsigned char>(text[0])) != 0 &&
                        std::ranges::all_of(text, [&](char c) {
                          return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                                 kPlain.find(c) != std::string_view::npos;
                        });
  const auto value = codec::ResolveYamlScalar(text);
  if (is_plain && value && value->is_string()) return text;
  return Quoted(text);
}

std::string FilterText(const ConfigEntry& entry) {
  if (entry.filter_is_text && entry.device_filter.size() == 1) {
    return Scalar(entry.device_filter[0]);
  }
  std::vector<std::string> texts;
  for (const auto& filter : entry.device_filter) texts.push_back(Scalar(filter));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

void AppendEntry(std::string& text, const ConfigEntry& entry) {
  std::string_view begin = "  - ";
  if (!entry.device_filter.empty()) {
    text += fmt::format("{}device-filter: {}\n", begin, FilterText(entry));
    begin = "    ";
  }
  text += entry.devices ? fmt::format("{}devices: [{}]\n", begin, fmt::join(*entry.devices, ", "))
                        : fmt::format("{}devices: all\n", begin);
  text += fmt::format("    mig-enabled: {}\n", entry.mig_enabled);
  if (entry.mig_devices.empty()) {
    text += "    mig-devices: {}\n";
    return;
  }
  text += "    mig-devices:\n";
  for (const auto& name : Names(entry.mig_devices)) {
    text += fmt::format("      {}: {}\n", Scalar(name), entry.mig_devices.at(name));
  }
}

// One element a line, as Go's indenting encoder writes lists.
std::string JsonList(const std::vector<std::string>& elements, std::string_view margin) {
  if (elements.empty()) return "[]";
  return fmt::format("[\n{0}  {1}\n{0}]", margin,
                     fmt::join(elements, fmt::format(",\n{}  ", margin)));
}
std::string JsonObject(const std::vector<std::string>& members, std::string_view margin) {
  if (members.empty()) return "{}";
  return fmt::format("{{\n{0}  {1}\n{0}}}", margin,
                     fmt::join(members, fmt::format(",\n{}  ", margin)));
}

std::string JsonEntry(const ConfigEntry& entry, const std::string& margin) {
  const std::string inner = margin + "  ";
  std::vector<std::string> members;
  if (entry.filter_is_text && entry.device_filter.size() == 1) {
    members.push_back("\"device-filter\": " + Quoted(entry.device_filter[0]));
  } else if (!entry.device_filter.empty()) {
    std::vector<std::string> filters;
    for (const auto& filter : entry.device_filter) filters.push_back(Quoted(filter));
    members.push_back("\"device-filter\": " + JsonList(filters, inner));
  }
  std::vector<std::string> positions;
  for (const int position : entry.devices.value_or(std::vector<int>())) {
    positions.push_back(std::to_string(position));
  }
  members.push_back("\"devices\": " + (entry.devices ? JsonList(positions, inner) : "\"all\""));
  members.push_back(fmt::format("\"mig-enabled\": {}", entry.mig_enabled));
  std::vector<std::string> counts;
  for (const auto& [name, count] : entry.mig_devices) {
    counts.push_back(fmt::format("{}: {}", Quoted(name), count));
  }
  members.push_back("\"mig-devices\": " + JsonObject(counts, inner));
  return JsonObject(members, margin);
}

}  // namespace

std::string ToYamlText(const Configuration& configuration) {
  std::string text = fmt::format("version: {}\n", Scalar(configuration.version));
  if (configuration.configs.empty()) return text;
  text += "mig-configs:\n";
  for (const auto& name : Names(configuration.configs)) {
    text += fmt::format("  {}:\n", Scalar(name));
    for (const auto& entry : configuration.configs.at(name)) AppendEntry(text, entry);
  }
  return text;
}

std::string ToJsonText(const Configuration& configuration) {
  std::vector<std::string> members = {"\"version\": " + Quoted(configuration.version)};
  std::vector<std::string> configs;
  for (const auto& [name, config] : configuration.configs) {
    std::vector<std::string> entries;
    for (const auto& entry : config) entries.push_back(JsonEntry(entry, "      "));
    configs.push_back(fmt::format("{}: {}", Quoted(name), JsonList(entries, "    ")));
  }
  if (!configs.empty()) members.push_back("\"mig-configs\": " + JsonObject(configs, "  "));
  return JsonObject(members, "");
}

}  // namespace pitcrew::node::mig
