// Profiles of one GPU by name, and which of NVML's profiles a name means on it (mig-manager.md
// sections 3.2, 5.4 and 5.5). Names are resolved on the GPU that gets the instances: equal names
// are different profiles on different boards.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "gpu/mig_profile.h"
#include "node/mig/layout.h"

namespace pitcrew::node::mig {

// What a name means on one GPU.
struct NamedProfile {
  gpu::MigProfile name = {};
  const Profile* gpu_instance = nullptr;  // borrowed from the GPU
  unsigned compute_instance = 0;          // NVML's index of the compute instance profile
};

// Null when the GPU has none with NVML's index. Borrowed.
const Profile* FindGpuInstanceProfile(const Gpu& gpu, unsigned index);

// NVML counts this board's instances wrongly (A30, mig-manager.md section 8): its placements and
// engines are right.
[[nodiscard]] bool HasWrongCounts(const Gpu& gpu);

// Every profile that upstream lists, in its order, compute instance profiles too; equal names once,
// with the lowest index.
base::Result<std::vector<NamedProfile>> ListProfiles(const Gpu& gpu);

// kInvalid "NoSuchProfile": names the GPU, the profile, and those that the GPU has with their
// counts.
base::Result<NamedProfile> FindProfile(const Gpu& gpu, const std::string& name);

// "1g.10gb (up to 7), 2g.20gb (up to 3)", for messages; without compute instance profiles.
std::string DescribeProfiles(const Gpu& gpu);

}  // namespace pitcrew::node::mig
