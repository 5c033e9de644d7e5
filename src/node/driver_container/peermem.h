// nvidia-peermem, by which network cards reach the memory of GPUs: loaded by a container of its
// own, when driver and network driver are there (driver-lifecycle.md 9.12).
#pragma once

#include "base/result.h"
#include "io/stop.h"
#include "node/driver_container/options.h"

namespace pitcrew::node::driver_container {

// Waits for both, loads the module, and stays until the stop.
base::Status ReloadPeermem(const Options& options, const io::StopToken& stop);

// kUnavailable "PeermemMissing" where the network driver is loaded and nvidia-peermem is not.
base::Status ProbePeermem(const Options& options);

}  // namespace pitcrew::node::driver_container
