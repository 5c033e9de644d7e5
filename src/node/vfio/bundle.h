// Which PCI functions change hands together: a GPU with the functions of its board, and every GPU
// whose IOMMU group they share. A group goes to one virtual machine whole, or not at all.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "gpu/pci_address.h"
#include "host/pci.h"
#include "node/vfio/node.h"

namespace pitcrew::node::vfio {

// Which devices are meant (vfio-manager.md section 3).
struct Selection {
  std::optional<gpu::PciAddress> device = {};  // this one; without it, all but virtual functions
  bool switches = false;                       // NVSwitches too
  std::optional<std::set<gpu::PciAddress>> only = {};  // of those, these GPUs
  std::set<gpu::PciAddress> except = {};               // of those, not these GPUs
};

struct Unit {
  host::PciDevice device;                   // a GPU or an NVSwitch
  std::vector<host::PciDevice> companions;  // its audio, USB and UCSI functions
};

struct Bundle {
  std::vector<Unit> units;  // sorted by address

  // Each device, followed by its companions.
  [[nodiscard]] std::vector<host::PciDevice> functions() const;
  [[nodiscard]] bool Has(const gpu::PciAddress& address) const;
  // "0000:65:00.0", "0000:65:00.0 and 0000:66:00.0".
  [[nodiscard]] std::string Name() const;
};

// GPUs first, then NVSwitches, each sorted by address. kNotFound "NoSuchDevice" for a selected one
// that is not there; empty for one that is no NVIDIA GPU (or NVSwitch, where those are meant).
base::Result<std::vector<host::PciDevice>> SelectDevices(const Node& node,
                                                         const Selection& selection);

// In the order of `devices`. Companions of a GPU are the functions that work only while it does
// (vfio-manager.md section 6), and NVIDIA's other functions of its slot in its IOMMU group.
std::vector<Bundle> MakeBundles(const Node& node, const std::vector<host::PciDevice>& devices);

}  // namespace pitcrew::node::vfio
