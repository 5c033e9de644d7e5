// PCI devices as the kernel lists them in /sys/bus/pci/devices (Linux: Documentation/ABI/testing/
// sysfs-bus-pci). Mandatory attributes are plain values; optional ones are present, absent or
// unknown.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/observed.h"
#include "base/result.h"
#include "gpu/pci_address.h"

namespace pitcrew::host {

inline constexpr std::uint16_t kVendorNvidia = 0x10de;
inline constexpr std::uint16_t kVendorMellanox = 0x15b3;

struct PciDevice {
  gpu::PciAddress address;
  std::filesystem::path folder;  // this device's folder as this process sees it
  std::uint16_t vendor = 0;
  std::uint16_t device = 0;
  std::uint32_t class_code = 0;  // 24 bits: class, subclass, programming interface
  base::Observed<std::uint16_t> subsystem_vendor = base::Observed<std::uint16_t>::Missing();
  base::Observed<std::uint16_t> subsystem_device = base::Observed<std::uint16_t>::Missing();
  base::Observed<int> numa_node = base::Observed<int>::Missing();  // -1 in sysfs is absent
  base::Observed<std::string> driver =
      base::Observed<std::string>::Missing();  // bound driver's name
  base::Observed<std::uint32_t> iommu_group = base::Observed<std::uint32_t>::Missing();
  base::Observed<gpu::PciAddress> physical_function =
      base::Observed<gpu::PciAddress>::Missing();  // of a VF
  base::Observed<std::uint32_t> sriov_total_vfs = base::Observed<std::uint32_t>::Missing();
  base::Observed<std::uint32_t> sriov_vfs = base::Observed<std::uint32_t>::Missing();

  // Class and subclass, 16 bits: 0x0302 for a 3D controller.
  [[nodiscard]] std::uint16_t base_class() const {
    return static_cast<std::uint16_t>(class_code >> 8);
  }
  // VGA or 3D controller, and not a virtual function.
  [[nodiscard]] bool is_display_controller() const;
};

struct PciScan {
  std::vector<PciDevice> devices;  // sorted by address
  // Devices that are listed but could not be read: of these nothing is known.
  std::vector<base::Error> failures;
};

// `devices` is /sys/bus/pci/devices as this process sees it. A missing folder is kNotFound; a
// device that vanishes during the scan is left out.
base::Result<PciScan> ReadPciDevices(const std::filesystem::path& devices);

// Those of `scan` that are NVIDIA display controllers (GPUs), without virtual functions.
std::vector<PciDevice> NvidiaGpus(const PciScan& scan);

}  // namespace pitcrew::host
