#include "node/vfio/node.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/file.h"
#include "base/strings.h"
#include "host/iommu.h"
#include "host/kernel.h"
#include "host/sysfs.h"

namespace pitcrew::node::vfio {
namespace {

using gpu::PciAddress;
using host::PciDevice;
using host::Root;

constexpr std::uint32_t kVgaController = 0x030000;

// From /proc/cpuinfo: x86 names its vendor, arm64 a number of it.
Cpu ReadCpu(std::string_view cpuinfo) {
  for (const auto& line : base::Split(cpuinfo, '\n')) {
    if (line.starts_with("CPU implementer")) return Cpu::kArm;
    if (!line.starts_with("vendor_id")) continue;
    if (line.ends_with("GenuineIntel")) return Cpu::kIntel;
    if (line.ends_with("AuthenticAMD") || line.ends_with("HygonGenuine")) return Cpu::kAmd;
    return Cpu::kOther;
  }
  return Cpu::kOther;
}

bool HasHypervisorFlag(std::string_view cpuinfo) {
  for (const auto& line : base::Split(cpuinfo, '\n')) {
    if (!line.starts_with("flags")) continue;
    const auto words = base::SplitTrimmed(line, ' ');
    return std::ranges::find(words, "hypervisor") != words.end();
  }
  return false;
}

base::Observed<bool> ReadFirmware(const Root& root) {
  const auto tables = root.At("/sys/firmware/acpi/tables");
  const auto names = host::ListFolder(tables);
  if (!names && names.error().code == base::Code::kNotFound) return base::Observed<bool>::Missing();
  if (!names) return base::Observed<bool>::Unknown(names.error());
  constexpr std::array<std::string_view, 3> kTables = {"DMAR", "IVRS", "IORT"};
  return base::Observed<bool>::Present(std::ranges::any_of(
      kTables, [&](auto table) { return std::ranges::find(*names, table) != names->end(); }));
}

base::Result<Translation> ReadTranslation(const Root& root) {
  Translation translation;
  TRY_ASSIGN(translation.iommus, host::ListIommus(root));
  // Only the advice depends on what follows, so what cannot be read is left out.
  const auto cpuinfo = base::ReadFile(root.At("/proc/cpuinfo")).value_or("");
  translation.cpu = ReadCpu(cpuinfo);
  translation.is_virtual_machine = HasHypervisorFlag(cpuinfo);
  const auto line = base::ReadFile(root.At("/proc/cmdline")).value_or("");
  translation.arguments = base::SplitTrimmed(base::Trim(line), ' ');
  translation.in_firmware = ReadFirmware(root);
  const auto unsafe =
      host::ReadAttribute(root.At("/sys/module/vfio/parameters/enable_unsafe_noiommu_mode"));
  translation.unsafe_without = unsafe && (*unsafe == "Y" || *unsafe == "1");
  return translation;
}

// Devices that could not be read: NVIDIA's, and those of which not even the vendor is known.
base::Result<std::vector<base::Error>> UnreadDevices(const Root& root, const host::PciScan& scan) {
  const auto devices = root.At("/sys/bus/pci/devices");
  std::vector<base::Error> unread;
  if (scan.failures.empty()) return unread;
  TRY_ASSIGN(const auto names, host::ListFolder(devices));
  for (const auto& name : names) {
    const auto address = PciAddress::Parse(name);
    if (address &&
        std::ranges::find(scan.devices, *address, &PciDevice::address) != scan.devices.end()) {
      continue;
    }
    const auto vendor = host::ReadAttribute(devices / name / "vendor");
    if (vendor && *vendor != "0x10de") continue;
    unread.push_back(base::Unavailable(
        "DeviceUnreadable",
        "the attributes of PCI device " + name + " cannot be read, so it is not known what it is"));
  }
  return unread;
}

// A group that is not listed has nobody that could be seen: the device is unplugged right now, or
// the tree is a simulated one without groups.
base::Status ReadGroup(const Root& root, const PciDevice& device, Node& node) {
  const auto* group = device.iommu_group.value();
  if (group == nullptr || node.groups.contains(*group)) return {};
  auto members = host::IommuGroupMembers(root, *group);
  if (!members && members.error().code != base::Code::kNotFound) {
    return base::Fail(members.error());
  }
  node.groups[*group] = members ? *std::move(members) : std::vector{device.address};
  return {};
}

}  // namespace

const PciDevice* Node::Find(const PciAddress& address) const {
  const auto found = std::ranges::find(scan.devices, address, &PciDevice::address);
  return found == scan.devices.end() ? nullptr : &*found;
}

bool IsGpu(const PciDevice& device) {
  const auto code = device.base_class();
  return device.vendor == host::kVendorNvidia && (code == 0x0300 || code == 0x0302);
}

base::Result<Node> ReadNode(const Settings& settings) {
  const Root& root = settings.root;
  Node node;
  TRY_ASSIGN(node.scan, host::ReadPciDevices(root.At("/sys/bus/pci/devices")));
  TRY_ASSIGN(node.unread, UnreadDevices(root, node.scan));
  TRY_ASSIGN(node.translation, ReadTranslation(root));
  for (const auto& device : node.scan.devices) {
    if (device.vendor != host::kVendorNvidia) continue;
    TRY(ReadGroup(root, device, node));
    if (device.class_code == kVgaController) {
      TRY_ASSIGN(node.consumers[device.address], host::ConsumersOf(root, device.address));
    }
  }
  // A consumer may be of another vendor, in a group of its own.
  for (const auto& [gpu, consumers] : node.consumers) {
    for (const auto& consumer : consumers) {
      if (const auto* device = node.Find(consumer)) TRY(ReadGroup(root, *device, node));
    }
  }
  return node;
}

}  // namespace pitcrew::node::vfio
