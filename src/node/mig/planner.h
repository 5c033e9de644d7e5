// Which instances make up a configuration, and where they lie. Pure: the possible placements that
// NVML lists, the number of instances that fit, and the engines of each profile decide, instead of
// trying orders on the GPU.
#pragma once

#include "base/result.h"
#include "node/mig/layout.h"

namespace pitcrew::node::mig {

// The layout with these counts on this GPU, empty of anything else. Compute instances share a GPU
// instance as upstream puts them: large ones first, into the first that has room. Among places the
// driver's own choice is taken first (gpu::ChoosePlacement), so that what upstream makes with its
// first attempt lies at the same places.
// kInvalid: "NoSuchProfile" as FindProfile, "DoesNotFit" names the GPU, what was asked and what
// fits instead; kUnsupported "ProfilesUnknown" when the GPU does not tell its profiles now.
base::Result<Layout> PlanLayout(const Gpu& gpu, const ProfileCounts& counts);

// The counts as the GPU names them, without those of 0: "7c.7g.40gb" is 7g.40gb. kInvalid
// "NoSuchProfile".
base::Result<ProfileCounts> CanonicalCounts(const Gpu& gpu, const ProfileCounts& counts);

}  // namespace pitcrew::node::mig
