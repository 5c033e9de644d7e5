// MIG configuration files, format v1 (mig-manager.md section 3): named configurations, each a list
// of entries that say which GPUs get which instances.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "node/mig/config_document.h"
#include "node/mig/device_id.h"

namespace pitcrew::node::mig {

// How many of each profile, by the name that was written: {"1g.10gb": 7}.
using ProfileCounts = std::map<std::string, int>;

// One entry of a configuration.
struct ConfigEntry {
  // Device ids; none: every board. A single text and a list of one mean the same, but are written
  // differently.
  std::vector<std::string> device_filter = {};
  bool filter_is_text = false;
  // Positions in the node's list of GPUs by PCI address; nullopt: "all".
  std::optional<std::vector<int>> devices = {};
  bool mig_enabled = false;
  ProfileCounts mig_devices = {};

  [[nodiscard]] bool IsFor(const DeviceId& id, int position) const {
    return IsForGpu(device_filter, devices, id, position);
  }
  bool operator==(const ConfigEntry&) const = default;
};

using NamedConfig = std::vector<ConfigEntry>;
using Configuration = ConfigFile<ConfigEntry>;

// YAML, of which JSON is a part. kInvalid "InvalidMigConfig": "<source>:<line>:<column>: " and
// upstream's words. Profiles are checked for their form only: whether a board has them is seen when
// a plan is made.
base::Result<Configuration> ParseConfiguration(std::string_view text, std::string_view source);
// "-" is standard input. kNotFound when the file is missing.
base::Result<Configuration> LoadConfiguration(const std::filesystem::path& file);

// The configuration with this name; without a name the only one. kInvalid "NoSuchConfig" names
// those that there are. Borrowed.
base::Result<const NamedConfig*> SelectConfig(const Configuration& configuration,
                                              std::string_view name);

// As upstream's tools write it: blocks, lists of filters and devices on one line, names in natural
// order (1g.5gb before 1g.10gb). Ends with a newline.
std::string ToYamlText(const Configuration& configuration);
// Indented by two spaces, without a newline at the end.
std::string ToJsonText(const Configuration& configuration);

}  // namespace pitcrew::node::mig
