// The driver's modules in the node's kernel go as one (driver-lifecycle.md 4.10; 12.2, number 37):
// a driver without some of its modules is of no use to the operands, which come back if it stays.
#pragma once

#include "base/result.h"
#include "node/driver_manager/options.h"

namespace pitcrew::node::driver_manager {

// Takes out all modules of NVIDIA's that are loaded, or none. kUnavailable "DriverStillInUse" names
// what holds them, with the processes that have their devices open. Where a module stays although
// nothing was seen to hold it, those that had gone are loaded again from the old driver's files, as
// far as its container or the host still has them; the error says which came back.
base::Status UnloadDriver(const Options& options);

// Takes the kernel's own driver of these GPUs out of the way. kUnavailable "ModuleInUse" when it is
// in use, for example by the console.
base::Status UnloadNouveau(const Options& options);

}  // namespace pitcrew::node::driver_manager
