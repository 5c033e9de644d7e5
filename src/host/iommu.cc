#include "host/iommu.h"

#include <algorithm>
#include <string>

namespace pitcrew::host {
namespace {

using gpu::PciAddress;

// A missing folder has no entries.
base::Result<std::vector<std::string>> EntriesOf(const std::filesystem::path& folder) {
  auto names = ListFolder(folder);
  if (!names && names.error().code == base::Code::kNotFound) return std::vector<std::string>();
  return names;
}

}  // namespace

base::Result<std::vector<std::string>> ListIommus(const Root& root) {
  return EntriesOf(root.At("/sys/class/iommu"));
}

base::Result<std::vector<PciAddress>> IommuGroupMembers(const Root& root, std::uint32_t group) {
  const auto folder =
      root.At("/sys/kernel/iommu_groups") / std::to_string(group) / std::string("devices");
  TRY_ASSIGN(const auto names, ListFolder(folder));
  std::vector<PciAddress> members;
  for (const auto& name : names) {
    if (const auto address = PciAddress::Parse(name)) members.push_back(*address);
  }
  std::ranges::sort(members);
  return members;
}

base::Result<std::vector<PciAddress>> ConsumersOf(const Root& root, const PciAddress& supplier) {
  constexpr std::string_view kPrefix = "consumer:pci:";
  const auto devices = root.At("/sys/bus/pci/devices");
  TRY_ASSIGN(const auto names, ListFolder(devices / supplier.SysfsName()));
  std::vector<PciAddress> consumers;
  for (const auto& name : names) {
    if (!name.starts_with(kPrefix)) continue;
    const auto address = PciAddress::Parse(std::string_view(name).substr(kPrefix.size()));
    if (!address) continue;
    TRY_ASSIGN(const bool there, IsDirectory(devices / address->SysfsName()));
    if (there) consumers.push_back(*address);
  }
  return consumers;
}

base::Observed<std::string> VfioDeviceName(const PciDevice& device) {
  const auto names = EntriesOf(device.folder / "vfio-dev");
  if (!names) return base::Observed<std::string>::Unknown(names.error());
  if (names->empty()) return base::Observed<std::string>::Missing();
  return base::Observed<std::string>::Present(names->front());
}

bool IsPassthroughDriver(std::string_view driver) {
  return driver.find("vfio") != std::string_view::npos || driver == "pci-stub";
}

bool IsBridge(const PciDevice& device) {
  // By class: PCI to PCI, CardBus, and semi-transparent PCI to PCI.
  const auto code = device.base_class();
  return code == 0x0604 || code == 0x0607 || code == 0x0609;
}

bool IsNvSwitch(const PciDevice& device) {
  return device.vendor == kVendorNvidia && device.base_class() == 0x0680;
}

std::vector<PciDevice> HoldersOfGroup(const std::vector<PciDevice>& members) {
  std::vector<PciDevice> holders;
  for (const auto& member : members) {
    const bool free = member.driver.is_absent() ||
                      (member.driver.is_present() && IsPassthroughDriver(*member.driver.value()));
    if (!free && !IsBridge(member)) holders.push_back(member);
  }
  return holders;
}

}  // namespace pitcrew::host
