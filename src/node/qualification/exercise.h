// Making one GPU work: memory patterns and copies, through the driver's libcuda. For a process of
// its own that sees only this GPU (CUDA_VISIBLE_DEVICES): a GPU that hangs holds it for ever, and
// whoever started it ends it.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "node/qualification/measurement.h"

namespace pitcrew::node::qualification {

// How much memory to test: a share of what is free, or bytes.
struct Amount {
  double share = 0;  // 0 to 1; 0: `bytes` counts
  std::uint64_t bytes = 0;
};
// "90%", "16Gi", "512Mi", "1048576". kInvalid "BadAmount".
base::Result<Amount> ParseAmount(std::string_view text);

// Writes patterns into the memory and reads them back: words of zeros, ones and both alternating,
// and in the last one a different number in each word, so that cells which answer to another
// address are found too.
base::Result<Exercise> TestMemory(const Amount& amount);

// Copies from and to the host and within the GPU, timed by the GPU, and what NVML says of the GPU
// with that UUID meanwhile.
base::Result<Exercise> MeasureBandwidths(const std::string& uuid);

// Copies from the first to the second of the two GPUs that this process sees, timed by the first,
// and whether what arrived is what was sent.
base::Result<Exercise> MeasurePeerCopies();

}  // namespace pitcrew::node::qualification
