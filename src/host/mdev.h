// Mediated devices: a GPU (or a virtual function of one) cut into vGPUs by its vendor's driver
// (vgpu-device-manager.md section 4; Linux: Documentation/ABI/testing/sysfs-bus-vfio-mdev). Kernels
// whose driver uses the vendor-specific VFIO framework instead have none of it: kNotFound.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/observed.h"
#include "base/result.h"
#include "gpu/pci_address.h"
#include "host/root.h"

namespace pitcrew::host {

struct MdevType {
  std::string id;               // folder's name: "nvidia-474"
  std::string name;             // "NVIDIA A100-4C"
  std::uint64_t available = 0;  // instances that can still be made
  // Of this type on an empty GPU; nullopt when the driver's `description` does not say it.
  std::optional<std::uint64_t> most = {};
  bool operator==(const MdevType&) const = default;
};

struct MdevDevice {
  std::string uuid;
  gpu::PciAddress parent;
  std::string type_name;
  base::Observed<std::string> driver = base::Observed<std::string>::Missing();
  base::Observed<std::uint32_t> iommu_group = base::Observed<std::uint32_t>::Missing();
};

// PCI devices that can have mediated devices, by address. kNotFound "NoMdev" when the kernel has no
// such framework.
base::Result<std::vector<gpu::PciAddress>> ListMdevParents(const Root& root);
// Types of one parent, by id.
base::Result<std::vector<MdevType>> ListMdevTypes(const Root& root, const gpu::PciAddress& parent);

struct MdevScan {
  std::vector<MdevDevice> devices;  // by UUID
  // UUIDs that are listed but could not be read, with why: of these nothing is known.
  std::map<std::string, base::Error> unreadable;
};

// All that exist; those of parents that are no PCI devices, and those that vanish meanwhile, are
// left out. kNotFound "NoMdev" as above.
base::Result<MdevScan> ScanMdevs(const Root& root);
// The same, where one that cannot be read is the error.
base::Result<std::vector<MdevDevice>> ListMdevs(const Root& root);

// kUnavailable "NoRoomLeft" when the parent is full, kConflict when the UUID is taken; else as
// WriteAttribute (sysfs.h).
base::Status CreateMdev(const Root& root, const gpu::PciAddress& parent, std::string_view type_id,
                        std::string_view uuid);
// Success when it is gone already. kConflict "DeviceBusy" while a virtual machine has it.
base::Status RemoveMdev(const Root& root, std::string_view uuid);

}  // namespace pitcrew::host
