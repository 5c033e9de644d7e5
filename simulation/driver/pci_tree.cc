#include "simulation/driver/pci_tree.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>

#include "gpu/pci_address.h"
#include "simulation/driver/pci_attributes.h"
#include "simulation/sysfs/control.h"
#include "simulation/sysfs/control_file.h"

namespace pitcrew::simulation {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kFirstIommuGroup = 40;
// What links of sysfs point at lies in here, inside the device's own folder: readers take every
// entry of the tree itself for a device.
constexpr const char* kTargets = "simulated";

std::string Hex(std::uint32_t value, int digits) {
  char text[16];
  std::snprintf(text, sizeof(text), "0x%0*x\n", digits, value);
  return text;
}

gpu::PciAddress AddressOf(const GpuState& gpu) {
  return {gpu.pci_domain, static_cast<std::uint8_t>(gpu.pci_bus),
          static_cast<std::uint8_t>(gpu.pci_device), static_cast<std::uint8_t>(gpu.pci_function)};
}

base::Status WriteText(const fs::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (file) return {};
  return base::Fail(base::Internal("WriteFailed", "cannot write " + path.string()));
}

base::Status MakeLink(const fs::path& device, const char* name, const fs::path& target) {
  std::error_code error;
  fs::create_directories(device / target, error);
  if (!error) fs::remove(device / name, error);
  if (!error) fs::create_directory_symlink(target, device / name, error);
  if (!error) return {};
  return base::Fail(base::FromErrno(error.value(), "link " + (device / name).string()));
}

base::Status WriteDevice(const fs::path& device, const GpuState& gpu, std::uint32_t index) {
  std::error_code error;
  fs::create_directories(device, error);
  if (error) return base::Fail(base::FromErrno(error.value(), "make " + device.string()));
  TRY(WriteText(device / "vendor", Hex(gpu.pci_device_id & 0xffff, 4)));
  TRY(WriteText(device / "device", Hex(gpu.pci_device_id >> 16, 4)));
  TRY(WriteText(device / "class", Hex(gpu.pci_class, 6)));
  TRY(WriteText(device / "subsystem_vendor", Hex(gpu.pci_subsystem_id & 0xffff, 4)));
  TRY(WriteText(device / "subsystem_device", Hex(gpu.pci_subsystem_id >> 16, 4)));
  TRY(WriteText(device / "revision", "0xa1\n"));
  TRY(WriteText(device / "numa_node", std::to_string(gpu.numa_node) + "\n"));
  TRY(WriteText(device / "resource", PciResource(gpu, index)));
  TRY(WriteText(device / "config",
                PciConfig(gpu.pci_device_id, gpu.pci_subsystem_id, gpu.pci_class)));
  TRY(WriteText(device / "driver_override", "(null)\n"));
  const std::string group = std::to_string(kFirstIommuGroup + index);
  return MakeLink(device, "iommu_group", fs::path(kTargets) / "iommu_groups" / group);
}

}  // namespace

base::Status WritePciTree(const fs::path& folder, const NodeState& node) {
  for (std::uint32_t i = 0; i < node.gpu_count; ++i) {
    TRY(WriteDevice(folder / AddressOf(node.gpus[i]).SysfsName(), node.gpus[i], i));
  }
  return {};
}

base::Status BindPciDriver(const fs::path& folder, const NodeState& node, std::string_view driver,
                           DriverLife life) {
  // A simulated sysfs has drivers that come and go as modules do.
  const fs::path sys = folder.parent_path().parent_path().parent_path();
  if (sysfs::IsSimulated(sys)) {
    std::string line = driver.empty() ? "unload nvidia" : "load nvidia ";
    if (!driver.empty()) line += node.driver_version;
    if (!driver.empty() && life == DriverLife::kWhileUsed) {
      line += " " + std::string(sysfs::kWhileUsed);
    }
    auto told = sysfs::WriteControl(sys, line);
    const bool already = !told && (told.error().code == base::Code::kExists ||
                                   told.error().code == base::Code::kNotFound);
    return already ? base::Status{} : told;
  }
  for (std::uint32_t i = 0; i < node.gpu_count; ++i) {
    const fs::path device = folder / AddressOf(node.gpus[i]).SysfsName();
    std::error_code error;
    if (!fs::is_directory(device, error)) continue;
    const fs::path bound = fs::read_symlink(device / "driver", error).filename();
    if (!error && !bound.empty() && bound != "nvidia") continue;
    if (driver.empty()) {
      fs::remove(device / "driver", error);
      continue;
    }
    TRY(MakeLink(device, "driver", fs::path(kTargets) / "drivers" / driver));
  }
  return {};
}

}  // namespace pitcrew::simulation
