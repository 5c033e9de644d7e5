// NVML for a process that must go on whatever a GPU does: calls on a GPU whose firmware or bus
// hangs do not return, and cannot be cancelled.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <vector>

#include "base/result.h"
#include "nvml/nvml.h"

namespace pitcrew::nvml {

struct GuardOptions {
  // The longest that a caller waits for NVML: for one call, and for all GPUs of an inventory
  // together, as they are read at the same time.
  std::chrono::milliseconds limit = std::chrono::seconds(5);
};

// As Library::Open, and what it returns has calls that end: one that is not answered within the
// limit is the error kTimeout "NvmlHangs" (in an inventory: the fault of that GPU), and its thread
// is left behind. While it hangs, the same error comes at once for further calls on that GPU; other
// GPUs are not concerned, as far as the library itself keeps them apart. Thread-safe.
//
// A library in which a call hangs stays loaded for the rest of the process.
base::Result<std::shared_ptr<Library>> OpenGuarded(
    const std::vector<std::filesystem::path>& driver_roots, const GuardOptions& options = {});

// Whether a call hangs now. Such a process has to end by std::_Exit: the library's own clean-up at
// the end would run under the feet of that thread.
bool HasHangingCalls();

}  // namespace pitcrew::nvml
