// GPUDirect RDMA needs the network driver before the GPU driver (driver-lifecycle.md 4.11).
#pragma once

#include "base/result.h"
#include "io/stop.h"
#include "node/driver_manager/options.h"

namespace pitcrew::node::driver_manager {

// Waits for it where it is asked for and the node has a card for it, by the kernel's word or by its
// container's. kUnavailable "NetworkDriverMissing" after options.mofed_timeout.
base::Status AwaitNetworkDriver(const Options& options, const io::StopToken& stop);

}  // namespace pitcrew::node::driver_manager
