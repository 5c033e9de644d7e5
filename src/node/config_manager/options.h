// What the config manager was told (device-plugin.md section 19).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/command_line.h"
#include "base/result.h"

namespace pitcrew::node::config_manager {

struct Options {
  bool oneshot = false;
  std::string kubeconfig;  // empty: in-cluster
  std::string node_name;
  std::string node_label;
  std::filesystem::path source;       // folder with one file for each configuration
  std::filesystem::path destination;  // the link that is made
  std::string default_config;         // empty: none
  std::vector<std::string> fallback_strategies;
  bool send_signal = true;
  int signal = 1;
  std::string process;  // argv[0] of the process to signal
};

// nullopt when --help or --version was asked for. kInvalid for wrong flags or variables, and for
// required ones that are missing.
base::Result<std::optional<Options>> ParseOptions(
    int argc, const char* const* argv,
    const base::CommandLine::Environment& environment = base::CommandLine::Process());

}  // namespace pitcrew::node::config_manager
