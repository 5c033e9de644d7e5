#include "gpu/mig_strategy.h"

#include <fmt/format.h>

namespace pitcrew::gpu {

base::Result<MigStrategy> ParseMigStrategy(std::string_view text) {
  for (const auto strategy : {MigStrategy::kNone, MigStrategy::kSingle, MigStrategy::kMixed}) {
    if (text == ToString(strategy)) return strategy;
  }
  return base::Fail(base::Invalid(
      "UnknownMigStrategy",
      fmt::format("\"{}\" is no MIG strategy; there are none, single and mixed", text)));
}

std::string_view ToString(MigStrategy strategy) {
  switch (strategy) {
    case MigStrategy::kSingle:
      return "single";
    case MigStrategy::kMixed:
      return "mixed";
    case MigStrategy::kNone:
      break;
  }
  return "none";
}

std::string MigResourceName(const MigProfile& profile) {
  return "nvidia.com/mig-" + profile.ResourceSuffix();
}

}  // namespace pitcrew::gpu
