// What the MPS control daemon was told: flags, environment and configuration file (device-plugin.md
// sections 4 and 17.1).
#pragma once

#include <filesystem>
#include <optional>

#include "api/plugin_config.h"
#include "base/command_line.h"
#include "base/result.h"
#include "gpu/mig_strategy.h"

namespace pitcrew::node::mps {

struct Options {
  api::PluginFlags flags;             // from command line and environment
  std::filesystem::path config_file;  // empty: none
};

// nullopt when --help or --version was asked for. kInvalid for wrong flags or variables.
base::Result<std::optional<Options>> ParseOptions(
    int argc, const char* const* argv,
    const base::CommandLine::Environment& environment = base::CommandLine::Process());

struct Settings {
  gpu::MigStrategy mig_strategy = gpu::MigStrategy::kNone;
  // A driver that cannot be reached at the start is an error; otherwise it is tried again.
  bool fail_on_init_error = true;
  api::Sharing sharing;
};

// The file, and the command line over it. kInvalid for a file that cannot be read as one, a MIG
// strategy that there is not, and `mixed` together with MPS ("BadSettings").
base::Result<Settings> ReadSettings(const Options& options);

}  // namespace pitcrew::node::mps
