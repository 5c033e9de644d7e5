// What came of a hand-over, for log and node.
#pragma once

#include "base/result.h"
#include "node/vfio/handover.h"
#include "node/vfio_manager/options.h"

namespace pitcrew::node::vfio_manager {

// Logs every device, and tells the node in Events where options.node_name names it. The error is
// that of the one device that was asked for, else kUnavailable "DevicesFailed".
base::Status Conclude(const Options& options, const vfio::Report& report);

}  // namespace pitcrew::node::vfio_manager
