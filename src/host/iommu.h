// What a virtual machine must get together, and by which driver: IOMMU groups, the functions that
// depend on a GPU, VFIO's names (vfio-manager.md section 6, virtualisation-and-olm.md section 4;
// Linux: Documentation/ABI/testing/sysfs-kernel-iommu_groups, Documentation/driver-api/vfio.rst).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/observed.h"
#include "base/result.h"
#include "gpu/pci_address.h"
#include "host/pci.h"
#include "host/root.h"

namespace pitcrew::host {

// IOMMUs that the kernel uses, sorted: "dmar0" (Intel), "ivhd0" (AMD), "smmu3.0x..." (Arm). Empty:
// the kernel translates for no device.
base::Result<std::vector<std::string>> ListIommus(const Root& root);

// PCI devices of a group, sorted; members that are no PCI devices (mediated ones) are left out.
// kNotFound when there is no such group.
base::Result<std::vector<gpu::PciAddress>> IommuGroupMembers(const Root& root, std::uint32_t group);

// Devices whose link "consumer:pci:<address>" says that they work only while this one does (for a
// GPU its audio function), in the order of the links' names; only those that exist.
base::Result<std::vector<gpu::PciAddress>> ConsumersOf(const Root& root,
                                                       const gpu::PciAddress& supplier);

// "vfio3" for a device whose file of its own is /dev/vfio/devices/vfio3: bound to a VFIO driver,
// and the kernel has iommufd (Linux 6.2).
base::Observed<std::string> VfioDeviceName(const PciDevice& device);

// Holds devices for virtual machines: VFIO's drivers and their variants ("nvgrace_gpu_vfio_pci"),
// which in the kernel and outside have the word in their names, and pci-stub.
bool IsPassthroughDriver(std::string_view driver);

// A bridge: the kernel takes no driver of it for a user of its group (vfio.rst, "groups").
bool IsBridge(const PciDevice& device);
// A bridge that is an NVSwitch (class 0x0680, vendor NVIDIA): a device like a GPU.
bool IsNvSwitch(const PciDevice& device);

// Those of `members` that would keep a user from their group, as the kernel decides it: they have a
// driver that is none for virtual machines.
std::vector<PciDevice> HoldersOfGroup(const std::vector<PciDevice>& members);

}  // namespace pitcrew::host
