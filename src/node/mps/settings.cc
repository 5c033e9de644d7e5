#include "node/mps/settings.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "base/log.h"

namespace pitcrew::node::mps {

base::Result<std::optional<Options>> ParseOptions(
    int argc, const char* const* argv, const base::CommandLine::Environment& environment) {
  base::CommandLine line("mps-control-daemon",
                         "Shares a node's GPUs by CUDA MPS; the command mount-shm mounts the "
                         "shared memory that this needs",
                         "NVIDIA MPS Control Daemon version " PITCREW_VERSION);
  Options options;
  std::optional<std::string> config_file;
  line.Add({"config-file", "CONFIG_FILE", "configuration file, version v1"}, &config_file);
  line.Add({"mig-strategy", "MIG_STRATEGY", "how MIG devices are offered: none, single or mixed"},
           &options.flags.mig_strategy);
  TRY_ASSIGN(const bool run, line.Parse(argc, argv, environment));
  if (!run) return std::nullopt;
  options.config_file = config_file.value_or("");
  return options;
}

base::Result<Settings> ReadSettings(const Options& options) {
  TRY_ASSIGN(auto file, api::ReadPluginConfig(options.config_file));
  api::PluginFlags flags = options.flags;
  flags.FillFrom(file.flags);
  const auto name = flags.mig_strategy.value_or("none");
  const auto bad = [&](std::string_view right) {
    return base::Fail(base::Invalid(
        "BadSettings", fmt::format("mig-strategy is \"{}\"; it must be {}", name, right)));
  };
  const auto strategy = gpu::ParseMigStrategy(name);
  if (!strategy) return bad("none, single or mixed");
  if (file.sharing.strategy() == api::SharingStrategy::kMps &&
      *strategy == gpu::MigStrategy::kMixed) {
    return bad("none or single while devices are shared by MPS");
  }
  for (const auto& warning : file.warnings) base::LogWarning(warning);
  Settings settings;
  settings.mig_strategy = *strategy;
  settings.fail_on_init_error = flags.fail_on_init_error.value_or(true);
  settings.sharing = std::move(file.sharing);
  return settings;
}

}  // namespace pitcrew::node::mps
