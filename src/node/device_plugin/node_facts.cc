#include "node/device_plugin/node_facts.h"

#include "host/mig_minors.h"
#include "host/pci.h"

namespace pitcrew::node::device_plugin {

base::Result<NodeFacts> ReadNodeFacts(const std::vector<std::filesystem::path>& pci_devices,
                                      const std::vector<std::filesystem::path>& proc_folders) {
  NodeFacts facts;
  for (const auto& folder : pci_devices) {
    const auto scan = host::ReadPciDevices(folder);
    if (!scan || scan->devices.empty()) continue;
    facts.pci_devices.emplace();
    for (const auto& device : scan->devices) {
      const auto* driver = device.driver.value();
      if (driver == nullptr || *driver == "nvidia") facts.pci_devices->insert(device.address);
      const auto* numa_node = device.numa_node.value();
      if (numa_node == nullptr) continue;
      facts.numa_nodes[device.address] = *numa_node;
    }
    break;
  }
  TRY_ASSIGN(facts.mig_minors, host::ReadMigMinors(proc_folders));
  return facts;
}

}  // namespace pitcrew::node::device_plugin
