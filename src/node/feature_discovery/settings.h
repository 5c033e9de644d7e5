// What feature discovery was told (feature-discovery.md section 1).
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/plugin_config.h"
#include "base/command_line.h"
#include "base/result.h"
#include "gpu/mig_strategy.h"

namespace pitcrew::node::feature_discovery {

// What stays the same over every reload.
struct Options {
  api::PluginFlags flags;  // from command line and environment
  std::filesystem::path config_file;
  std::string kubeconfig;  // empty: in-cluster
  std::string namespace_name;
  std::string node_name;
  std::string pod_name;
};

struct Settings {
  gpu::MigStrategy mig_strategy = gpu::MigStrategy::kNone;
  bool fail_on_init_error = true;
  bool oneshot = false;
  bool no_timestamp = false;
  // The longest time between two looks at the GPUs; changes that are announced are seen at once.
  std::chrono::nanoseconds longest_interval = std::chrono::seconds(60);
  std::filesystem::path output_file;  // empty: standard output
  std::filesystem::path machine_type_file;
  bool use_node_feature_api = true;
  std::filesystem::path driver_root_in_here = "/driver-root";
  api::Sharing sharing;
  std::vector<std::string> warnings;

  [[nodiscard]] bool LooksOnce() const {
    return longest_interval == std::chrono::nanoseconds::max();
  }
};

// nullopt when --help or --version was asked for.
base::Result<std::optional<Options>> ParseOptions(
    int argc, const char* const* argv,
    const base::CommandLine::Environment& environment = base::CommandLine::Process());

// Command line and environment over file over defaults. kInvalid "BadSettings".
base::Result<Settings> Merge(const Options& options, const api::PluginConfig& file);

}  // namespace pitcrew::node::feature_discovery
