// The flags of nvidia-ctk cdi generate (container-toolkit.md 5.3) and what they ask for.
#pragma once

#include <string>

#include "base/command_line.h"
#include "base/result.h"
#include "node/ctk/generate_modes.h"
#include "node/ctk/subcommands.h"

namespace pitcrew::node::ctk {

struct GenerateFlags {
  Text output, format, mode, driver_root, dev_root, hook_path, ldconfig_path, vendor, device_class,
      compat_root;
  List strategies, disabled_hooks, enabled_hooks, device_ids, features, library_folders,
      config_folders, tegra_lists, ignored_links;
  Switch no_all_device;
};

void AddDriverRootFlag(base::CommandLine& line, GenerateFlags& to);
void AddGenerateFlags(base::CommandLine& line, GenerateFlags& to);

// What the configuration names, where no flag does; "/" where nothing does.
base::Result<std::string> DriverRoot(const GlobalFlags& global, const GenerateFlags& flags);

// kInvalid "BadUsage" names the flag.
base::Result<GenerateRequest> ReadRequest(const GlobalFlags& global, const GenerateFlags& flags);

}  // namespace pitcrew::node::ctk
