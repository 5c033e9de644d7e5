// What the kernel tells of devices that a VFIO driver has, ready for a virtual machine (Linux:
// Documentation/driver-api/vfio.rst; kubevirt-device-plugin.md sections 2 and 5).
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "host/root.h"

namespace pitcrew::host {

// vfio-pci, and the variant drivers that are made for one device and named after it, such as
// nvgrace_gpu_vfio_pci.
bool IsVfioDriver(std::string_view driver);

// What is in /dev/vfio: "vfio", groups by number ("12"), and "devices/vfio3". kNotFound when there
// is no such folder.
base::Result<std::set<std::string>> ListVfioNodes(const Root& root);

// The device nodes by which a device can be opened, as ListVfioNodes names them. `device` is its
// folder in sysfs, of PCI or of mediated devices. Empty when it has no driver that offers it.
base::Result<std::vector<std::string>> VfioNodes(const std::filesystem::path& device);

// GPU memory that belongs to several GPUs together (extended GPU memory of Grace machines).
struct EgmDevice {
  std::string name;               // its node is /dev/<name>
  std::vector<std::string> gpus;  // PCI addresses as the driver writes them
  bool operator==(const EgmDevice&) const = default;
};

struct EgmScan {
  std::vector<EgmDevice> devices;  // by name; those that belong to no GPU are left out
  std::vector<base::Error> failures;
};

// Empty on machines that have none.
base::Result<EgmScan> ReadEgmDevices(const Root& root);

}  // namespace pitcrew::host
