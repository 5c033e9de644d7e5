// DRIVER_CONFIG_DIGEST: tells the driver upgrade whether a new driver pod would do anything else
// than the running one. Byte-equal with upstream (reference operand-manifests.md section 6.5).
#pragma once

#include <string>

#include "desired/operand.h"

namespace pitcrew::desired {

// Of the finished driver DaemonSet of a policy, before the variable itself is set (path A). Decimal
// FNV-1a 32.
std::string DriverConfigDigest(const Object& daemonset);

// What of a NVIDIADriver's DaemonSet was made out before its digest.
struct DriverObjectParts {
  std::string driver_image;
  std::string manager_image;
  std::string gds_image;      // "": off
  std::string gdrcopy_image;  // "": off
  bool toolkit = false;
  std::string toolkit_image;
  // A DaemonSet and a container with nothing but the volumes and mounts of the files that the
  // driver asks for.
  Object volumes = Object::object();
  Object mounts = Object::object();
};
// Of a NVIDIADriver's DaemonSet: from its description (path B). context.driver_spec is not null.
std::string DriverObjectDigest(const DriverObjectParts& parts, const Context& context);

}  // namespace pitcrew::desired
