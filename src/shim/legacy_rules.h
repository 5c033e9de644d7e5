// What mode legacy asks of a container besides its devices (container-toolkit.md 8): there upstream
// has them checked by its prestart hook and libnvidia-container.
#pragma once

#include "base/result.h"
#include "oci/spec.h"
#include "shim/config.h"

namespace pitcrew::shim {

// kDenied "MigNeedsPrivileges" for a container that is not privileged and asks to configure or
// monitor MIG; kUnsupported "UnsupportedCapabilities" where NVIDIA_DRIVER_CAPABILITIES names one
// that config.toml does not support.
base::Status CheckLegacyRules(const oci::Spec& spec, const Config& config);

}  // namespace pitcrew::shim
