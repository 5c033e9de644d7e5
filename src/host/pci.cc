#include "host/pci.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <utility>

#include "base/strings.h"
#include "host/folder.h"
#include "host/root.h"

namespace pitcrew::host {
namespace {

using gpu::PciAddress;

std::optional<std::uint32_t> ParseHex(std::string_view text) {
  if (text.starts_with("0x") || text.starts_with("0X")) text.remove_prefix(2);
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

base::Error Malformed(const std::filesystem::path& file, std::string_view text) {
  return base::Invalid("MalformedSysfsAttribute",
                       fmt::format("{} holds \"{}\", which is not a number", file.string(), text));
}

base::Result<std::uint32_t> ReadHex(const Folder& folder, const char* name) {
  TRY_ASSIGN(const std::string content, folder.Read(name));
  const auto text = base::Trim(content);
  const auto value = ParseHex(text);
  if (!value) return base::Fail(Malformed(folder.path() / name, text));
  return *value;
}

base::Result<std::uint16_t> ReadHex16(const Folder& folder, const char* name) {
  TRY_ASSIGN(const std::uint32_t value, ReadHex(folder, name));
  if (value > std::numeric_limits<std::uint16_t>::max()) {
    return base::Fail(Malformed(folder.path() / name, fmt::format("{:x}", value)));
  }
  return static_cast<std::uint16_t>(value);
}

base::Result<std::int64_t> ReadDecimal(const Folder& folder, const char* name) {
  TRY_ASSIGN(const std::string content, folder.Read(name));
  const auto text = base::Trim(content);
  auto value = base::ParseInteger(text);
  if (!value) return base::Fail(Malformed(folder.path() / name, text));
  return *value;
}

base::Result<std::uint32_t> ReadCount(const Folder& folder, const char* name) {
  TRY_ASSIGN(const std::int64_t value, ReadDecimal(folder, name));
  if (value < 0 || value > std::numeric_limits<std::uint32_t>::max()) {
    return base::Fail(Malformed(folder.path() / name, fmt::format("{}", value)));
  }
  return static_cast<std::uint32_t>(value);
}

base::Result<std::string> LinkName(const Folder& folder, const char* name) {
  TRY_ASSIGN(const std::string target, folder.Link(name));
  return std::filesystem::path(target).filename().string();
}

base::Observed<int> ReadNumaNode(const Folder& folder, const char* name) {
  const auto value = ReadDecimal(folder, name);
  if (!value) return base::Observed<int>::From(base::Fail(value.error()));
  if (*value < 0) return base::Observed<int>::Missing();
  return base::Observed<int>::Present(static_cast<int>(*value));
}

base::Result<std::uint32_t> ReadIommuGroup(const Folder& folder, const char* name) {
  TRY_ASSIGN(const std::string last, LinkName(folder, name));
  TRY_ASSIGN(const std::uint64_t number, base::ParseUnsigned(last));
  return static_cast<std::uint32_t>(number);
}

base::Result<PciAddress> ReadPhysicalFunction(const Folder& folder, const char* name) {
  TRY_ASSIGN(const std::string last, LinkName(folder, name));
  return PciAddress::Parse(last);
}

base::Result<PciDevice> ReadDevice(const PciAddress& address, const std::filesystem::path& path) {
  TRY_ASSIGN(const auto folder, Folder::Open(path));
  PciDevice device;
  device.address = address;
  device.folder = path;
  TRY_ASSIGN(device.vendor, ReadHex16(folder, "vendor"));
  TRY_ASSIGN(device.device, ReadHex16(folder, "device"));
  TRY_ASSIGN(device.class_code, ReadHex(folder, "class"));
  device.subsystem_vendor =
      base::Observed<std::uint16_t>::From(ReadHex16(folder, "subsystem_vendor"));
  device.subsystem_device =
      base::Observed<std::uint16_t>::From(ReadHex16(folder, "subsystem_device"));
  device.numa_node = ReadNumaNode(folder, "numa_node");
  device.driver = base::Observed<std::string>::From(LinkName(folder, "driver"));
  device.iommu_group = base::Observed<std::uint32_t>::From(ReadIommuGroup(folder, "iommu_group"));
  device.physical_function =
      base::Observed<PciAddress>::From(ReadPhysicalFunction(folder, "physfn"));
  device.sriov_total_vfs = base::Observed<std::uint32_t>::From(ReadCount(folder, "sriov_totalvfs"));
  device.sriov_vfs = base::Observed<std::uint32_t>::From(ReadCount(folder, "sriov_numvfs"));
  return device;
}

}  // namespace

bool PciDevice::is_display_controller() const {
  return (base_class() == 0x0300 || base_class() == 0x0302) && !physical_function.is_present();
}

base::Result<PciScan> ReadPciDevices(const std::filesystem::path& devices) {
  TRY_ASSIGN(const auto names, ListFolder(devices));
  PciScan scan;
  for (const auto& name : names) {
    const auto address = PciAddress::Parse(name);
    if (!address) {
      scan.failures.push_back(address.error().Within(devices.string()));
      continue;
    }
    const auto folder = devices / name;
    auto device = ReadDevice(*address, folder);
    if (device) {
      scan.devices.push_back(*std::move(device));
      continue;
    }
    // Unplugged since the listing: that is absence, not a failure.
    const auto still_there = IsDirectory(folder);
    if (still_there && !*still_there) continue;
    scan.failures.push_back(std::move(device).error());
  }
  std::ranges::sort(scan.devices, {}, &PciDevice::address);
  return scan;
}

std::vector<PciDevice> NvidiaGpus(const PciScan& scan) {
  std::vector<PciDevice> gpus;
  for (const auto& device : scan.devices) {
    if (device.vendor == kVendorNvidia && device.is_display_controller()) gpus.push_back(device);
  }
  return gpus;
}

}  // namespace pitcrew::host
