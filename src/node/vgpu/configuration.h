// vGPU configuration files, format v1 (vgpu-device-manager.md section 3): named configurations,
// each a list of entries that say which GPUs are cut into which vGPUs.
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

namespace pitcrew::node::vgpu {

// How many of each type, by the name that was written: {"A100-10C": 4}.
using Counts = std::map<std::string, int>;

struct ConfigEntry {
  // Device ids; none: every board.
  std::vector<std::string> device_filter = {};
  // Positions in the node's list of GPUs by PCI address; nullopt: "all".
  std::optional<std::vector<int>> devices = {};
  // Empty: no vGPU on these GPUs. Either all are MIG-backed or none is.
  Counts vgpu_devices = {};

  [[nodiscard]] bool IsFor(const mig::DeviceId& id, int position) const {
    return mig::IsForGpu(device_filter, devices, id, position);
  }
  bool operator==(const ConfigEntry&) const = default;
};

using NamedConfig = std::vector<ConfigEntry>;
using Configuration = mig::ConfigFile<ConfigEntry>;

// YAML, of which JSON is a part. kInvalid "InvalidVgpuConfig": "<source>:<line>:<column>: " and
// upstream's words. Types are checked for their form only: whether a GPU has them is seen when a
// plan is made.
base::Result<Configuration> ParseConfiguration(std::string_view text, std::string_view source);
// "-" is standard input. kNotFound when the file is missing.
base::Result<Configuration> LoadConfiguration(const std::filesystem::path& file);

// The configuration with this name; without a name the only one. kInvalid "NoSuchConfig" names
// those that there are. Borrowed.
base::Result<const NamedConfig*> SelectConfig(const Configuration& configuration,
                                              std::string_view name);

// As a file that ParseConfiguration reads.
std::string ToYamlText(const Configuration& configuration);
std::string ToJsonText(const Configuration& configuration);

}  // namespace pitcrew::node::vgpu
