// What the confidential computing manager was told: upstream's flags and variables
// (virtualisation-and-olm.md section 12.1, validator.md section 12.2).
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "base/command_line.h"
#include "base/result.h"
#include "node/validations/status_folder.h"

namespace pitcrew::node::cc_manager {

struct Options {
  std::string kubeconfig;
  std::string node_name;
  std::string namespace_name;       // where the operands run that are paused; empty: its own
  std::string default_mode = "on";  // of a node without the label
  std::filesystem::path ready_file =
      std::filesystem::path(validations::kFolder) / validations::kCcManagerContainerReady;
  bool pause_operands = true;
  std::filesystem::path host_root = "/host";  // whose /proc has the node's processes

  // How long paused operands may take to end, all together; upstream gives each five minutes, and
  // goes on where they do not.
  std::chrono::seconds operand_timeout{300};
  // Until a change that failed for a reason that may pass is tried again; doubled each time.
  std::chrono::seconds first_retry{60};
  std::chrono::seconds longest_retry{1800};

  // Where this process sees /sys and /run; other values are for tests.
  std::filesystem::path root = "/";
  std::chrono::milliseconds firmware_patience{5000};

  [[nodiscard]] std::filesystem::path journal() const {
    return root / "run/nvidia/cc/journal.json";
  }
};

// Nothing when --help or --version was answered. kInvalid for wrong usage.
base::Result<std::optional<Options>> ReadOptions(
    int argc, const char* const* argv,
    const base::CommandLine::Environment& environment = base::CommandLine::Process());

}  // namespace pitcrew::node::cc_manager
