// A driver container's life: what it makes ready before the node is touched, bringing the driver
// up, staying, taking it down (driver-lifecycle.md 9.3, 9.9, 9.10).
#pragma once

#include "base/result.h"
#include "io/stop.h"
#include "node/driver_container/options.h"

namespace pitcrew::node::driver_container {

// `init` and `load`: brings the driver up and stays until `stop`; success when it is down then.
//
// A driver in use is not taken down: the container stays until nobody uses it, or until somebody
// kills it.
base::Status RunDriver(const Options& options, const io::StopToken& stop);

// `build` and `update`: files in this image, nothing of the node.
base::Status BuildDriver(const Options& options, const io::StopToken& stop);

// `preflight`: what RunDriver would do, on standard output; its error is the first thing missing.
// With Options::report: PreflightReport, there and on standard output.
base::Status Preflight(const Options& options, const io::StopToken& stop);

}  // namespace pitcrew::node::driver_container
