// Who uses a PCI function: the processes that have device nodes of it open, through its own driver
// (a CUDA program, a display server) or through VFIO (a virtual machine).
#pragma once

#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/result.h"
#include "host/device_users.h"
#include "host/pci.h"
#include "io/stop.h"
#include "node/vfio/node.h"

namespace pitcrew::node::vfio {

// Nodes of these functions: of their IOMMU groups, of VFIO's own files, of NVIDIA's driver, of DRM.
base::Result<host::DeviceNumbers> DeviceNumbersOf(const Settings& settings,
                                                  const std::vector<host::PciDevice>& functions);

base::Result<std::vector<host::DeviceUser>> FindUsers(
    const Settings& settings, const std::vector<host::PciDevice>& functions);

// Waits until nobody uses them any more, told by the kernel. kConflict "GpuInUse" names the users
// at the deadline; kCancelled on stop.
base::Status AwaitUnused(const Settings& settings, const std::vector<host::PciDevice>& functions,
                         const std::string& name, base::Deadline deadline,
                         const io::StopToken& stop);

// "python3 (process 12), qemu-system-x86 (process 4711)".
std::string NamesOf(const std::vector<host::DeviceUser>& users);

}  // namespace pitcrew::node::vfio
