// A node's geometry as a configuration, and the configurations that a node's boards could have
// (mig-manager.md sections 7 and 8).
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "node/mig/configuration.h"
#include "node/mig/layout.h"

namespace pitcrew::node::mig {

// One configuration named `label` that describes every GPU. kUnavailable for a GPU that cannot be
// read.
base::Result<Configuration> ExportConfiguration(const std::vector<Gpu>& gpus,
                                                std::string_view label);

// One entry per GPU, each with one filter and one position, to as few as say the same. Pure.
NamedConfig MergeEntries(const NamedConfig& per_gpu);

// What one kind of board offers: names without compute instance profiles, and how many fit.
struct BoardProfiles {
  DeviceId id = {};  // without the subsystem
  ProfileCounts counts = {};
};
// Per GPU that can do MIG. kNotFound "NoMigCapableGpu" when there is none ("no MIG-capable devices
// found on the system"), "NoProfiles" when the driver names no profile ("no MIG profiles discovered
// for MIG-capable GPUs"; old drivers while MIG is off).
base::Result<std::vector<BoardProfiles>> DiscoverProfiles(const std::vector<Gpu>& gpus);

// The name of the configuration that fills a GPU with a profile: "1g.10gb+me" has all-1g.10gb.me.
std::string ConfigName(std::string_view profile);

// all-disabled, all-enabled, all-balanced where there is one, and all-<profile> for every profile.
Configuration GenerateConfiguration(const std::vector<BoardProfiles>& boards);

}  // namespace pitcrew::node::mig
