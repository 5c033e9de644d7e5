#include "simulation/driver/pci_tree.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <fstream>
#include <string>

#include "gpu/pci_address.h"

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

// Start, end, flags of BAR0 (registers), BAR1 (frame buffer, prefetchable 64 bit), BAR3, then the
// rest of the 13 lines that the kernel writes.
std::string Resource(const GpuState& gpu, std::uint32_t index) {
  std::string text;
  const auto line = [&](std::uint64_t start, std::uint64_t size, std::uint64_t flags) {
    char one[64];
    std::snprintf(one, sizeof(one), "0x%016llx 0x%016llx 0x%016llx\n",
                  static_cast<unsigned long long>(start),
                  static_cast<unsigned long long>(size == 0 ? 0 : start + size - 1),
                  static_cast<unsigned long long>(flags));
    text += one;
  };
  constexpr std::uint64_t kMib = 1ull << 20;
  const std::uint64_t bar1 = std::bit_ceil(std::max(gpu.bar1_total, kMib));
  line(0x90000000ull + index * 16 * kMib, 16 * kMib, 0x40200);
  line(0x20000000000ull + index * 4 * bar1, bar1, 0x14220c);
  line(0, 0, 0);
  line(0x30000000000ull + index * 32 * kMib, 32 * kMib, 0x14220c);
  for (int rest = 0; rest < 9; ++rest) line(0, 0, 0);
  return text;
}

// The standard header of PCI configuration space; no capabilities (status bit 4 clear), so nothing
// is taken for a virtual GPU (feature-discovery.md section 5).
std::string Config(const GpuState& gpu) {
  std::string bytes(256, '\0');
  const auto put = [&](std::size_t at, std::uint32_t value, int count) {
    for (int i = 0; i < count; ++i) {
      bytes[at + static_cast<std::size_t>(i)] = static_cast<char>(value >> 8 * i & 0xff);
    }
  };
  put(0x00, gpu.pci_device_id & 0xffff, 2);
  put(0x02, gpu.pci_device_id >> 16, 2);
  put(0x04, 0x0006, 2);
  put(0x08, 0xa1, 1);
  put(0x09, gpu.pci_class, 3);
  put(0x2c, gpu.pci_subsystem_id & 0xffff, 2);
  put(0x2e, gpu.pci_subsystem_id >> 16, 2);
  return bytes;
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
  TRY(WriteText(device / "resource", Resource(gpu, index)));
  TRY(WriteText(device / "config", Config(gpu)));
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

base::Status BindPciDriver(const fs::path& folder, const NodeState& node, std::string_view driver) {
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
