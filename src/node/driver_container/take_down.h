// Taking a driver down: its daemons and its modules go together, or stay together.
#pragma once

#include "base/result.h"
#include "node/driver_container/options.h"

namespace pitcrew::node::driver_container {

// kUnavailable "DriverInUse" names programs and modules that use the loaded driver, the driver's
// own daemons aside.
base::Status RefuseUsedDriver(const Places& places);

// Ends the daemons and takes the modules out. A driver in use keeps its daemons; where that is seen
// only when they have ended, they are started again.
base::Status TakeDown(const Options& options);

// The same as soon as nobody uses the driver. The log says who does.
void TakeDownWhenUnused(const Options& options);

}  // namespace pitcrew::node::driver_container
