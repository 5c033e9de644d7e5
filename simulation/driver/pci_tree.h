// A folder like /sys/bus/pci/devices with the node's simulated GPUs, and the drivers bound to them.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/result.h"
#include "simulation/state/layout.h"

namespace pitcrew::simulation {

// Writes one folder per GPU: vendor, device, class, subsystem_vendor, subsystem_device, revision,
// numa_node, resource, config, local_cpulist, the link iommu_group. Whatever else lies in `folder`
// stays. A GPU whose folder exists keeps the driver that it is bound to.
base::Status WritePciTree(const std::filesystem::path& folder, const NodeState& node);

// How long the kernel module of a simulated sysfs stays: until it is unloaded, as a host's own; or,
// as a container's, no longer than it has users (StateFile::UseDriver).
enum class DriverLife { kInstalled, kWhileUsed };

// Makes the driver link of every GPU of the node point at `driver` ("nvidia"); an empty name
// unbinds. GPUs without a folder, and those bound to another driver, are left alone. In a simulated
// sysfs the driver's kernel module comes, with the node's driver version, and goes.
base::Status BindPciDriver(const std::filesystem::path& folder, const NodeState& node,
                           std::string_view driver, DriverLife life = DriverLife::kInstalled);

}  // namespace pitcrew::simulation
