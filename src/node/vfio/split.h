// Some GPUs of a node are for virtual machines, the others for containers.
#pragma once

#include <set>
#include <string_view>

#include "base/result.h"
#include "gpu/pci_address.h"
#include "node/vfio/node.h"

namespace pitcrew::node::vfio {

// The GPUs that a list of PCI addresses names for virtual machines, if the node can be divided so.
// Refused as a whole, before anything is changed: kInvalid "InvalidPciAddress", "UnknownGpu" (none
// of the node's GPUs has that address), "NoGpuForContainers" (the list has all of them),
// "IommuGroupShared" (a group would have GPUs of both sides).
base::Result<std::set<gpu::PciAddress>> ReadSplit(const Node& node, std::string_view list);

}  // namespace pitcrew::node::vfio
