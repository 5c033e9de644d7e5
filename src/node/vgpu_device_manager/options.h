// What the vGPU device manager was told: upstream's flags and variables (vgpu-device-manager.md
// section 6.1).
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "base/command_line.h"
#include "base/result.h"
#include "node/vgpu_types/known_types.h"

namespace pitcrew::node::vgpu_device_manager {

struct Options {
  std::string kubeconfig;
  std::string node_name;
  std::string namespace_name;         // where the operands run that are paused
  std::filesystem::path config_file;  // "vgpu-configs"
  std::string default_config;         // for a node without the label
  std::filesystem::path host_root = "/host";
  std::filesystem::path driver_root = "/driver-root";  // for this process

  // How long paused operands may take to end, both together; upstream gives each two minutes.
  std::chrono::seconds operand_timeout{240};
  // Until a change that failed for a reason that may pass is tried again; doubled each time.
  std::chrono::seconds first_retry{60};
  std::chrono::seconds longest_retry{1800};

  // With /sys as this process sees it; another value is for tests.
  std::filesystem::path sys_root = "/";

  [[nodiscard]] std::filesystem::path journal() const {
    return host_root / "run/nvidia/vgpu/journal.json";
  }
  [[nodiscard]] std::filesystem::path mig_journal() const {
    return host_root / "run/nvidia/mig/journal.json";
  }
  [[nodiscard]] std::filesystem::path known_types() const {
    return host_root / std::filesystem::path(vgpu_types::kKnownTypesFile).relative_path();
  }
};

// Nothing when --help or --version was answered. kInvalid for wrong usage, and for what is not
// there yet: restarts of the node, services of the host.
base::Result<std::optional<Options>> ReadOptions(
    int argc, const char* const* argv,
    const base::CommandLine::Environment& environment = base::CommandLine::Process());

}  // namespace pitcrew::node::vgpu_device_manager
