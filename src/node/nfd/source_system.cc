#include <algorithm>
#include <array>
#include <optional>

#include "base/file.h"
#include "base/strings.h"
#include "host/os_release.h"
#include "node/nfd/sources.h"

namespace pitcrew::node::nfd {
namespace {

constexpr std::array kDmiFiles = {
    "bios_date",    "bios_vendor",    "bios_version",    "board_asset_tag",
    "board_name",   "board_vendor",   "board_version",   "chassis_asset_tag",
    "chassis_type", "chassis_vendor", "chassis_version", "product_family",
    "product_name", "product_sku",    "product_version", "sys_vendor"};

struct VersionParts {
  std::string major;
  std::string minor;  // "" when there is none
};

// Digits, then nothing or a dot with anything, of which leading digits are the minor number.
std::optional<VersionParts> SplitVersion(std::string_view version) {
  const auto digits = [](std::string_view text) {
    return text.substr(0, std::min(text.find_first_not_of("0123456789"), text.size()));
  };
  const auto major = digits(version);
  if (major.empty()) return std::nullopt;
  const auto rest = version.substr(major.size());
  if (rest.empty()) return VersionParts{std::string(major), ""};
  if (rest.front() != '.') return std::nullopt;
  const auto minor = digits(rest.substr(1));
  const auto after = rest.substr(1 + minor.size());
  const bool is_number = after.empty() || after.front() == '.';
  return VersionParts{std::string(major), is_number ? std::string(minor) : ""};
}

base::Result<Attributes> ReadDmi(const std::filesystem::path& folder) {
  Attributes found;
  for (const auto* name : kDmiFiles) {
    // Some of these files can be read by root only, and virtual machines lack some.
    const auto text = base::ReadFile(folder / name);
    if (text) found[name] = base::Trim(*text);
  }
  return found;
}

}  // namespace

base::Result<Discovery> DiscoverSystem(const HostPaths& paths, std::string_view node_name) {
  TRY_ASSIGN(const auto release, host::ReadOsRelease(paths.etc / "os-release"));
  Discovery found;
  found.features.attributes["system.name"]["nodename"] = node_name;
  auto& fields = found.features.attributes["system.osrelease"];
  fields = release.fields;
  if (const auto parts = SplitVersion(release.version_id())) {
    fields["VERSION_ID.major"] = parts->major;
    if (!parts->minor.empty()) fields["VERSION_ID.minor"] = parts->minor;
  }
  for (const auto* key : {"ID", "VERSION_ID", "VERSION_ID.major", "VERSION_ID.minor"}) {
    if (const auto value = fields.find(key); value != fields.end()) {
      found.labels[std::string("os_release.") + key] = value->second;
    }
  }
  TRY_ASSIGN(auto dmi, ReadDmi(paths.sys / "devices/virtual/dmi/id"));
  if (!dmi.empty()) found.features.attributes["system.dmiid"] = std::move(dmi);
  return found;
}

}  // namespace pitcrew::node::nfd
