// Reads what the inventory does not say about a node.
#pragma once

#include <filesystem>
#include <vector>

#include "base/result.h"
#include "node/device_plugin/resources.h"

namespace pitcrew::node::device_plugin {

// `pci_devices` are candidates for /sys/bus/pci/devices; the first with any device counts. NUMA
// nodes that cannot be read are missing.
base::Result<NodeFacts> ReadNodeFacts(const std::vector<std::filesystem::path>& pci_devices,
                                      const std::vector<std::filesystem::path>& proc_folders);

}  // namespace pitcrew::node::device_plugin
