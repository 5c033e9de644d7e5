// The longer attributes of a PCI device in sysfs.
#pragma once

#include <cstdint>
#include <string>

#include "simulation/state/layout.h"

namespace pitcrew::simulation {

// "resource": start, end, flags of BAR0 (registers), BAR1 (frame buffer, prefetchable 64 bit),
// BAR3, then the rest of the 13 lines that the kernel writes. `index`: the GPU's position, so that
// no two overlap.
std::string PciResource(const GpuState& gpu, std::uint32_t index);

// "config": the standard header; no capabilities (status bit 4 clear), so nothing is taken for a
// virtual GPU (feature-discovery.md section 5). `device` and `subsystem` are device << 16 | vendor.
std::string PciConfig(std::uint32_t device, std::uint32_t subsystem, std::uint32_t class_code);

}  // namespace pitcrew::simulation
