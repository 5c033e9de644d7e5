// What is expected of a GPU by its model: models.def.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace pitcrew::node::qualification {

enum class Links {
  kNone,
  kBridged,   // up only where bridges are plugged
  kSwitched,  // all of them are up on a good node
};

struct Model {
  std::uint16_t pci_device = 0;
  std::string_view name;
  unsigned pcie_generation = 0;   // 0: nothing is expected of PCIe
  unsigned pcie_width = 0;        // lanes
  unsigned memory_bandwidth = 0;  // GB/s, read and written together
  unsigned nvlinks = 0;
  Links links = Links::kNone;
  unsigned nvlink_bandwidth = 0;  // GB/s of all links together, in one direction; 0: not judged
};

std::span<const Model> Models();
// Null for a model that is not in the table. `pci_device_id` is device << 16 | vendor, as NVML's.
const Model* FindModel(std::uint32_t pci_device_id);

// What PCIe carries in one direction, GB/s; 0 for a generation that is not known.
double PcieBandwidth(unsigned generation, unsigned width);

// Of what bus or memory could carry, the share that a copy has to reach. Good boards reach three
// quarters and more; a lost generation or half of the lanes leave less than this.
inline constexpr double kLeastShare = 0.6;

}  // namespace pitcrew::node::qualification
