// What mode legacy asks of a container besides its devices (container-toolkit.md 8): there upstream
// has them checked by its prestart hook and libnvidia-container.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "cdi/spec.h"
#include "oci/spec.h"
#include "shim/config.h"

namespace pitcrew::shim {

// kDenied "MigNeedsPrivileges" for a container that is not privileged and asks to configure or
// monitor MIG; kUnsupported "UnsupportedCapabilities" where NVIDIA_DRIVER_CAPABILITIES names one
// that config.toml does not support.
base::Status CheckLegacyRules(const oci::Spec& spec, const Config& config);

// The capability nodes below the driver root with which a container that CheckLegacyRules lets pass
// configures or monitors MIG, where it asks for that. What is not on this node is a warning. `proc`
// is looked at then only.
cdi::ContainerEdits MigControlEdits(const oci::Spec& spec, const Config& config,
                                    std::vector<std::string>& warnings,
                                    const std::filesystem::path& proc = "/proc");

}  // namespace pitcrew::shim
