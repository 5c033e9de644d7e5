// How a node's MIG devices are offered as resources (device-plugin.md section 8).
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "gpu/mig_profile.h"

namespace pitcrew::gpu {

enum class MigStrategy {
  kNone,    // a GPU is a GPU, divided or not
  kSingle,  // every GPU of the node is divided alike: its MIG devices are nvidia.com/gpu
  kMixed,   // one resource per MIG profile, beside whole GPUs
};

// "none", "single", "mixed"; kInvalid "UnknownMigStrategy".
base::Result<MigStrategy> ParseMigStrategy(std::string_view text);
std::string_view ToString(MigStrategy strategy);

// "nvidia.com/mig-1g.5gb.me" for 1g.5gb+me.
std::string MigResourceName(const MigProfile& profile);

}  // namespace pitcrew::gpu
