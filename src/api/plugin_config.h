// The configuration file "v1" that device plugin, GPU feature discovery and the MPS daemon share
// (device-plugin.md section 4): flags, and how devices are shared between containers.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace pitcrew::api {

// Unset members are decided elsewhere. A file's `flags` and a command line both have this form.
struct PluginFlags {
  std::optional<std::string> mig_strategy;
  std::optional<bool> fail_on_init_error;
  std::optional<std::string> mps_root;
  std::optional<std::string> driver_root;  // on the host
  std::optional<std::string> dev_root;     // on the host
  std::optional<bool> gdrcopy_enabled;
  std::optional<bool> gds_enabled;
  std::optional<bool> mofed_enabled;
  std::optional<bool> use_node_feature_api;
  std::optional<std::string> device_discovery_strategy;

  // flags.plugin
  std::optional<bool> pass_device_specs;
  std::optional<std::vector<std::string>> device_list_strategy;
  std::optional<std::string> device_id_strategy;
  std::optional<std::string> cdi_annotation_prefix;
  std::optional<std::string> cdi_hook_path;        // nvidiaCTKPath
  std::optional<std::string> driver_root_in_here;  // containerDriverRoot
  std::optional<std::string> shared_devices_allocation_policy;

  // flags.gfd
  std::optional<bool> oneshot;
  std::optional<bool> no_timestamp;
  std::optional<std::chrono::nanoseconds> sleep_interval;  // max() is "infinite"
  std::optional<std::string> output_file;
  std::optional<std::string> machine_type_file;

  // imex; no member of `flags` in the file, but flags on the command line
  std::optional<std::vector<std::int64_t>> imex_channel_ids;
  std::optional<bool> imex_required;

  // Takes from `lower` what is unset here: command line over file over defaults.
  void FillFrom(const PluginFlags& lower);
};

// One resource whose devices are offered several times.
struct ReplicatedResource {
  std::string name;
  std::string rename;  // empty: offered under `name`
  int replicas = 0;    // at least 2

  bool operator==(const ReplicatedResource&) const = default;
};

struct ReplicatedResources {
  bool rename_by_default = false;
  // A container may ask for only one replica.
  bool fail_requests_greater_than_one = false;
  std::vector<ReplicatedResource> resources;

  // Null when that resource is not shared; borrowed.
  [[nodiscard]] const ReplicatedResource* Find(std::string_view resource) const;
};

enum class SharingStrategy { kNone, kTimeSlicing, kMps };
std::string_view ToString(SharingStrategy strategy);  // "none", "time-slicing", "mps"

struct Sharing {
  std::optional<ReplicatedResources> time_slicing;
  std::optional<ReplicatedResources> mps;

  [[nodiscard]] SharingStrategy strategy() const;
  // The list that counts: MPS' whenever it is there. Null when nothing is shared; borrowed.
  [[nodiscard]] const ReplicatedResources* replicated() const;
};

struct PluginConfig {
  PluginFlags flags;
  Sharing sharing;
  // What the file asks for and does not get (custom names, chosen devices), one sentence each.
  std::vector<std::string> warnings;
};

// An empty text is a valid configuration. Errors are kInvalid and name `source`, the member's place
// and its path.
base::Result<PluginConfig> ParsePluginConfig(std::string_view text, std::string_view source);
// An empty path is the empty configuration.
base::Result<PluginConfig> ReadPluginConfig(const std::filesystem::path& file);

// "infinite" (max()) or a Go duration; a unit is required except for "0".
base::Result<std::chrono::nanoseconds> ParseSleepInterval(std::string_view text);

// The full resource name for a name as written: "gpu" and "nvidia.com/gpu" are the same. kInvalid
// when it is too long or no DNS name.
base::Result<std::string> QualifyResourceName(std::string_view name);

// What one entry of `devices` in a shared resource may look like.
enum class DeviceReference { kGpuIndex, kMigIndex, kGpuUuid, kMigUuid };
std::optional<DeviceReference> ClassifyDeviceReference(std::string_view text);

}  // namespace pitcrew::api
