// From the node's GPUs to the resources that the kubelet is offered (device-plugin.md section 8).
// Pure: the same inventory always gives the same resources in the same order.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
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

  [[nodiscard]] bool IsMig() const { return gpu_instance.has_value(); }
  [[nodiscard]] bool IsReplica() const { return id != uuid; }
  bool operator==(const OfferedDevice&) const = default;
};

// Devices by resource name, in the order of NVML's indices.
using ResourceMap = std::map<std::string, std::vector<OfferedDevice>>;

// What the inventory does not say about the node.
struct NodeFacts {
  std::map<gpu::PciAddress, int> numa_nodes;  // from sysfs; a missing one is no affinity
  host::MigMinors mig_minors;
};

struct Resources {
  ResourceMap devices;
  std::vector<std::string> warnings;  // for the log, one sentence each
};

// kInvalid when the layout does not fit the strategy ("MixedMigModes", "MixedMigTypes",
// "MigGpuWithoutDevices", "MigMinorMissing").
base::Result<Resources> ListResources(const gpu::Inventory& inventory, gpu::MigStrategy strategy,
                                      const api::Sharing& sharing, const NodeFacts& facts);

}  // namespace pitcrew::node::device_plugin
