// MIG devices as this process sees them.
#pragma once

#include <string>
#include <vector>

#include "simulation/nvml/session.h"
#include "simulation/state/mig.h"

namespace pitcrew::simulation::library {

// In the order of NVML's MIG indices, without those whose capability nodes are missing.
[[nodiscard]] std::vector<MigDeviceRef> VisibleMigDevices(const GpuState& gpu,
                                                          const Visibility& visibility);
[[nodiscard]] void* MigHandle(std::uint32_t gpu, const MigDeviceRef& ref);
// "1g.10gb", of a target that is a MIG device.
[[nodiscard]] std::string MigProfileName(const Target& target);
[[nodiscard]] std::string MigProfileName(const GpuState& gpu, const GpuProfile& profile,
                                         const ComputeProfile& compute_profile);

}  // namespace pitcrew::simulation::library
