// Wiring between the GPUs of a node.
#pragma once

#include <cstdint>

#include "gpu/inventory.h"
#include "gpu/pci_address.h"
#include "simulation/state/layout.h"

namespace pitcrew::simulation {

struct LinkEnd {
  enum class Kind { kNothing, kGpu, kSwitch };
  Kind kind = Kind::kNothing;
  gpu::PciAddress address;
  std::uint32_t pci_device_id = 0;
};

// The far end of NVLink `link` of GPU `gpu`. Direct links are spread evenly over the other GPUs
// with direct links, so both directions of a pair count the same; links that do not divide stay
// down.
[[nodiscard]] LinkEnd FarEnd(const NodeState& node, std::uint32_t gpu, std::uint32_t link);

// The same in both directions.
[[nodiscard]] gpu::TopologyLevel CommonAncestor(const NodeState& node, std::uint32_t a,
                                                std::uint32_t b);

}  // namespace pitcrew::simulation
