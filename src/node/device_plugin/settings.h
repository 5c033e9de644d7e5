// What the device plugin was told: flags, environment and configuration file, merged and checked
// (device-plugin.md sections 3 and 4).
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/labels.h"
#include "api/plugin_config.h"
#include "base/command_line.h"
#include "base/result.h"
#include "gpu/mig_strategy.h"
#include "gpu/xid_policy.h"

namespace pitcrew::node::device_plugin {

// How a container learns which devices it has; any of them together.
struct ListStrategies {
  bool envvar = false;
  bool volume_mounts = false;
  bool cdi_annotations = false;
  bool cdi_cri = false;
  [[nodiscard]] bool UsesCdi() const { return cdi_annotations || cdi_cri; }
  [[nodiscard]] bool UsesRuntime() const { return envvar || volume_mounts; }
};

enum class DeviceIdStrategy { kUuid, kIndex };
enum class SharedAllocation { kDistributed, kPacked };

struct Settings {
  gpu::MigStrategy mig_strategy = gpu::MigStrategy::kNone;
  bool fail_on_init_error = true;
  std::string driver_root = "/";  // on the host
  std::string dev_root = "/";     // on the host
  std::filesystem::path driver_root_in_here = "/driver-root";
  bool pass_device_specs = false;
  ListStrategies list_strategies;
  DeviceIdStrategy device_id_strategy = DeviceIdStrategy::kUuid;
  SharedAllocation shared_allocation = SharedAllocation::kDistributed;
  bool gdrcopy = false;
  bool gds = false;
  bool mofed = false;
  std::string cdi_annotation_prefix{api::kCdiAnnotationPrefix};
  std::string cdi_hook_path = "/usr/bin/nvidia-ctk";
  std::string mps_root;  // on the host
  std::vector<std::int64_t> imex_channels;
  bool imex_required = false;
  api::Sharing sharing;
  // Sentences about what the configuration asks for and does not get.
  std::vector<std::string> warnings;
};

// What stays the same over every reload.
struct Options {
  api::PluginFlags flags;                // from command line and environment
  std::filesystem::path kubelet_socket;  // empty: do not register
  std::filesystem::path config_file;     // empty: none
  std::vector<std::string> cdi_feature_flags;
  std::vector<std::string> cdi_disabled_hooks;
  gpu::XidPolicy xid_policy;
  std::string node_name;        // whose Events are written; empty: none are
  std::string pod_name;         // named in them
  std::string kubeconfig;       // empty: in-cluster
  std::string metrics_address;  // ":9400"; empty: no metrics are served
  // How often GPUs that are not fit are asked again; no flag.
  std::chrono::milliseconds probe_period = std::chrono::seconds(10);
  // How long NVML may take to answer before a GPU counts as hanging; no flag.
  std::chrono::milliseconds nvml_limit = std::chrono::seconds(5);
};

// nullopt when --help or --version was asked for. kInvalid for wrong flags or variables.
base::Result<std::optional<Options>> ParseOptions(
    int argc, const char* const* argv,
    const base::CommandLine::Environment& environment = base::CommandLine::Process());

// Command line and environment over `file` over the defaults, checked in upstream's order (section
// 3.2). kInvalid "BadSettings" names the flag and what would be right.
base::Result<Settings> Merge(const api::PluginFlags& flags, const api::PluginConfig& file);

}  // namespace pitcrew::node::device_plugin
