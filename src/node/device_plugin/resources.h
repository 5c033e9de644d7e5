// From the node's GPUs to the resources that the kubelet is offered (device-plugin.md section 8).
// Pure: the same inventory always gives the same resources in the same order.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/plugin_config.h"
#include "base/result.h"
#include "gpu/inventory.h"
#include "gpu/mig_strategy.h"
#include "host/mig_minors.h"

namespace pitcrew::node::device_plugin {

// One device, or one replica of it.
struct OfferedDevice {
  std::string id;     // what the kubelet knows: the UUID, or "<UUID>::<n>" of a replica
  std::string uuid;   // "GPU-..." or "MIG-..."
  std::string index;  // "<GPU>" or "<GPU>:<MIG device>"
  std::vector<std::string> paths;  // device nodes, as the driver names them
  std::optional<std::int64_t> numa_node;
  std::string gpu_uuid;  // of the whole GPU
  // Set for MIG devices.
  std::optional<unsigned> gpu_instance;
  std::optional<unsigned> compute_instance;

  // Why nothing may be placed on it, whatever its health: it could not be read. Empty: it could.
  std::string unfit;

  [[nodiscard]] bool IsMig() const { return gpu_instance.has_value(); }
  [[nodiscard]] bool IsReplica() const { return id != uuid; }
  bool operator==(const OfferedDevice&) const = default;
};

// Devices by resource name, in the order of NVML's indices.
using ResourceMap = std::map<std::string, std::vector<OfferedDevice>>;

// What the inventory does not say about the node.
struct NodeFacts {
  std::map<gpu::PciAddress, int> numa_nodes;  // from sysfs; a missing one is no affinity
  // Where the NVIDIA driver may have a device; nullopt when sysfs cannot be read.
  std::optional<std::set<gpu::PciAddress>> pci_devices;
  host::MigMinors mig_minors;
};

struct Resources {
  ResourceMap devices;
  std::vector<std::string> warnings;  // for the log, one sentence each
};

// A GPU that cannot be read, or of which it is unknown whether it is divided, is listed with what
// is known of it, unfit: the node keeps telling that it has one.
//
// kInvalid when the layout does not fit the strategy ("MixedMigModes", "MixedMigTypes",
// "MigGpuWithoutDevices", "MigMinorMissing"), and for replicas whose list is longer than every
// kubelet takes ("ListTooLong", with the number that fits).
base::Result<Resources> ListResources(const gpu::Inventory& inventory, gpu::MigStrategy strategy,
                                      const api::Sharing& sharing, const NodeFacts& facts);

}  // namespace pitcrew::node::device_plugin
