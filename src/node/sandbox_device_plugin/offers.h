// Which resources a node offers to virtual machines, and the devices of each; pure
// (kubevirt-device-plugin.md sections 3, 4 and 9.1; virtualisation-and-olm.md 11.2).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gpu/device_names.h"
#include "gpu/pci_address.h"
#include "node/sandbox_device_plugin/machine.h"

namespace pitcrew::node::sandbox_device_plugin {

// Who takes the devices: the same devices have other names and answers.
enum class Client { kKubevirt, kKata };

struct Naming {
  Client client = Client::kKubevirt;
  gpu::DeviceNames names;
  // Kata only: one name for all GPUs, and one for all NVSwitches. Empty: each has its model's name.
  std::string gpu_alias;
  std::string switch_alias;
};

// One entry of a resource's list.
struct OfferedDevice {
  // KubeVirt: PCI address, or UUID of a mediated vGPU. Kata: number of the iommufd device or of the
  // group.
  std::string id;
  std::optional<int> numa_node;
  // What it is: all with one IOMMU group number, for Kata; else one. Empty for a mediated vGPU.
  std::vector<gpu::PciAddress> functions;
  // Why no virtual machine can have it now; empty: it can.
  std::string unfit;
  bool operator==(const OfferedDevice&) const = default;
};

// By resource name, "nvidia.com/GA102GL_A10". Never an empty list.
using Resources = std::map<std::string, std::vector<OfferedDevice>>;

struct Offers {
  Resources resources;
  // Sentences about what is not offered, or not as one might expect.
  std::vector<std::string> warnings;
};

// A device of `before` that could not be read now stays, unfit: nothing says that it is gone.
Offers ListOffers(const Machine& machine, const Naming& naming, const Resources& before);

// The nodes below /dev/vfio that a virtual machine with this function gets, by the names of
// host::ListVfioNodes. With iommufd a kernel may have no nodes of groups any more; then there are
// none to give.
std::vector<std::string> NodesOf(const PassthroughFunction& function, const Machine& machine,
                                 Client client);

}  // namespace pitcrew::node::sandbox_device_plugin
