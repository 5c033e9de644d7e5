// Where GPU instances can lie on a GPU. Pure; used to plan partitions and by the simulated driver.
// Placements are in memory slices (mig-manager.md section 12.2, "GI placements").
#pragma once

#include <optional>
#include <span>
#include <vector>

namespace pitcrew::gpu {

// Memory slices start .. start + size - 1.
struct MigPlacement {
  unsigned start = 0;
  unsigned size = 0;
  auto operator<=>(const MigPlacement&) const = default;
};

[[nodiscard]] bool Overlaps(const MigPlacement& a, const MigPlacement& b);

// Those of `possible` that overlap none of `occupied`, in the same order.
[[nodiscard]] std::vector<MigPlacement> FreePlacements(std::span<const MigPlacement> possible,
                                                       std::span<const MigPlacement> occupied);

// The free placement that takes away the fewest of the placements in `all` that are still free (the
// possible placements of every profile of the GPU, repeats counted), the lowest start among equals;
// this is how the driver places an instance for which nobody chose: small ones at the far end, a
// 3-slice one where the 4-slice one cannot go. nullopt when nothing is free.
[[nodiscard]] std::optional<MigPlacement> ChoosePlacement(std::span<const MigPlacement> possible,
                                                          std::span<const MigPlacement> occupied,
                                                          std::span<const MigPlacement> all);

}  // namespace pitcrew::gpu
