#include "gpu/device_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/file.h"
#include "base/strings.h"

namespace pitcrew::gpu {
namespace {

constexpr std::string_view kVendor = "10de";
constexpr std::size_t kIdLength = 4;
// The kubelet's limit is 63; a socket's path has 107 bytes, of which the folder, "kubevirt-" and
// ".sock" take 46.
constexpr std::size_t kLongestName = 61;

bool IsSpace(char c) { return c == ' ' || (c >= '\t' && c <= '\r' && c != '\v'); }
bool IsLetterOrDigit(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}
char ToUpper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }
std::string ToUpper(std::string_view text) {
  std::string upper(text);
  std::ranges::transform(upper, upper.begin(), [](char c) { return ToUpper(c); });
  return upper;
}

// Every run of white space becomes one underscore.
std::string JoinWords(std::string_view text) {
  std::string joined;
  bool in_space = false;
  for (const char c : text) {
    if (!IsSpace(c)) {
      joined += c;
    } else if (!in_space) {
      joined += '_';
    }
    in_space = IsSpace(c);
  }
  return joined;
}

// Of one text all names are made in this order: section 3.1.
std::string ResourceName(std::string_view database_name, bool keep_hyphens) {
  std::string name = ToUpper(base::Trim(database_name));
  std::ranges::replace_if(name, [](char c) { return c == '/' || c == '.'; }, '_');
  name = JoinWords(name);
  std::erase_if(
      name, [&](char c) { return !IsLetterOrDigit(c) && c != '_' && !(keep_hyphens && c == '-'); });
  return name;
}

// Of four hexadecimal digits in lower case; none for any other text.
std::optional<std::uint16_t> ParseDeviceId(std::string_view text) {
  std::uint16_t device = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), device, 16);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (DeviceIdText(device) != text) return std::nullopt;
  return device;
}

}  // namespace

// As upstream reads it: the first line that begins with the vendor's number, then its devices until
// a line that is neither indented nor a comment (an empty one, too).
DeviceNames::DeviceNames(std::string_view database) {
  bool in_vendor = false;
  for (const auto& line : base::Split(database, '\n')) {
    if (!in_vendor) {
      in_vendor = line.starts_with(kVendor);
      continue;
    }
    if (line.starts_with('#')) continue;
    if (!line.starts_with('\t')) return;
    if (line.size() <= kIdLength || line.starts_with("\t\t")) continue;
    names_.try_emplace(line.substr(1, kIdLength), base::Trim(line.substr(1 + kIdLength)));
  }
}

base::Result<DeviceNames> DeviceNames::Load(const std::filesystem::path& file) {
  auto text = base::ReadFile(file);
  if (!text) {
    return base::Fail(text.error().Within(
        "the PCI ID database, after which resources are named, cannot be read"));
  }
  DeviceNames names(*text);
  if (!names.empty()) return names;
  return base::Fail(base::Invalid(
      "NoDeviceNames", fmt::format("{} has no devices of vendor {}: put a PCI ID database there, "
                                   "or name one with --pci-ids",
                                   file.string(), kVendor)));
}

std::string DeviceNames::Find(std::uint16_t device) const {
  const auto found = names_.find(DeviceIdText(device));
  return found == names_.end() ? "" : found->second;
}

std::vector<std::uint16_t> DeviceNames::CalledForKubevirt(std::string_view name) const {
  std::vector<std::uint16_t> devices;
  for (const auto& [id, in_database] : names_) {
    const auto device = ParseDeviceId(id);
    if (device && KubevirtName(in_database) == name) devices.push_back(*device);
  }
  // What a device without a usable name is called; no name in the database is a number alone.
  if (const auto device = ParseDeviceId(name); device && devices.empty()) {
    devices.push_back(*device);
  }
  return devices;
}

std::string DeviceIdText(std::uint16_t device) { return fmt::format("{:04x}", device); }

std::string KubevirtName(std::string_view database_name) {
  return ResourceName(database_name, false);
}

std::string KataName(std::string_view database_name) { return ResourceName(database_name, true); }

std::string VgpuName(std::string_view type) { return JoinWords(base::Trim(type)); }

bool IsUsableName(std::string_view name) {
  return !name.empty() && name.size() <= kLongestName && IsLetterOrDigit(name.front()) &&
         IsLetterOrDigit(name.back()) && std::ranges::all_of(name, [](char c) {
           return IsLetterOrDigit(c) || c == '_' || c == '-' || c == '.';
         });
}

std::string VariableName(std::string_view prefix, std::string_view resource) {
  std::string name = ToUpper(resource);
  std::ranges::replace_if(name, [](char c) { return c == '/' || c == '.'; }, '_');
  return fmt::format("{}_{}", prefix, name);
}

}  // namespace pitcrew::gpu
