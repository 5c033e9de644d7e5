// DRIVER_CONFIG_DIGEST: tells the driver upgrade whether a new driver pod would do anything else
// than the running one. Byte-equal with upstream (reference operand-manifests.md section 6.5, path
// A).
#pragma once

#include <string>

#include "desired/manifest.h"

namespace pitcrew::desired {

// Of the finished driver DaemonSet, before the variable itself is set. Decimal FNV-1a 32.
std::string DriverConfigDigest(const Object& daemonset);

}  // namespace pitcrew::desired
