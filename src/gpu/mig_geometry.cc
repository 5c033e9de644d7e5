#include "gpu/mig_geometry.h"

#include <algorithm>
#include <cstddef>

namespace pitcrew::gpu {

bool Overlaps(const MigPlacement& a, const MigPlacement& b) {
  return a.start < b.start + b.size && b.start < a.start + a.size;
}

std::vector<MigPlacement> FreePlacements(std::span<const MigPlacement> possible,
                                         std::span<const MigPlacement> occupied) {
  std::vector<MigPlacement> result;
  for (const auto& placement : possible) {
    if (std::ranges::none_of(occupied, [&](const auto& o) { return Overlaps(placement, o); })) {
      result.push_back(placement);
    }
  }
  return result;
}

std::optional<MigPlacement> ChoosePlacement(std::span<const MigPlacement> possible,
                                            std::span<const MigPlacement> occupied,
                                            std::span<const MigPlacement> all) {
  const auto others = FreePlacements(all, occupied);
  std::optional<MigPlacement> best;
  std::ptrdiff_t least = 0;
  for (const auto& candidate : FreePlacements(possible, occupied)) {
    const auto lost = std::ranges::count_if(
        others, [&](const auto& other) { return Overlaps(candidate, other); });
    if (!best || lost < least || (lost == least && candidate.start < best->start)) {
      best = candidate;
      least = lost;
    }
  }
  return best;
}

}  // namespace pitcrew::gpu
