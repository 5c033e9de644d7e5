// Whether vGPUs fit on a GPU, as far as its driver tells before they are made. Private to this
// room.
#pragma once

#include "base/result.h"
#include "node/vgpu/gpu.h"

namespace pitcrew::node::vgpu {

// Counts by the GPU's names. kInvalid "DoesNotFit" in upstream's words, with what would fit. What
// the driver does not tell is left to be tried.
base::Status CheckFits(const Gpu& gpu, const Counts& wanted);

}  // namespace pitcrew::node::vgpu
