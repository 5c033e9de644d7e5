// Names of MIG profiles and how NVML's profile indices and memory sizes become them
// (feature-discovery.md section 15; mig-manager.md sections 3.2 and 5.5).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace pitcrew::gpu {

// NVML's counts of profile indices (feature-discovery.md section 14).
inline constexpr unsigned kGpuInstanceProfileCount = 18;
inline constexpr unsigned kComputeInstanceProfileCount = 9;

// "[<C>c.]<G>g.<GB>gb[+a,b|-a,b]".
struct MigProfile {
  int compute_slices = 0;
  int gpu_slices = 0;
  int memory_gb = 0;
  // Attributes behind '+' ("me", "me.all", "gfx") and behind '-' ("me"); never both.
  std::vector<std::string> attributes;
  std::vector<std::string> negative_attributes;

  // "1g.10gb", "1c.2g.10gb", "1g.10gb+me".
  [[nodiscard]] std::string Name() const;
  // The name in a resource or label: every '+' becomes '.': "1g.10gb.me".
  [[nodiscard]] std::string ResourceSuffix() const;

  // kInvalid with what is wrong. Purely syntactic: the hardware may not have such a profile.
  static base::Result<MigProfile> Parse(std::string_view text);

  bool operator==(const MigProfile&) const = default;
};

// GPU slices of a GPU instance profile index, 0 when the index is outside the table.
int GpuInstanceSlices(unsigned gpu_instance_profile_index);
// Compute slices of a compute instance profile index, 0 when the index is outside the table.
int ComputeInstanceSlices(unsigned compute_instance_profile_index);

// The profile of (GPU instance profile index, compute instance profile index, its memory in MiB,
// the parent's total memory in bytes). Index 17 (3_SLICE_GFX), which upstream cannot name, becomes
// "3g...+gfx". kInvalid for an index outside the tables or a GPU without memory.
base::Result<MigProfile> NameMigProfile(unsigned gpu_instance_profile_index,
                                        unsigned compute_instance_profile_index,
                                        std::uint64_t memory_mib, std::uint64_t total_memory_bytes);

// Upstream's rule for which compute instances to list inside a GPU instance
// (feature-discovery.md section 15): C <= G, and not (C < G and 2C > G + 1).
bool IsListedCombination(int compute_slices, int gpu_slices);

}  // namespace pitcrew::gpu
