#include "node/sandbox_device_plugin/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "host/iommu.h"
#include "host/mdev.h"
#include "host/pci.h"
#include "node/sandbox_device_plugin/device_names.h"

namespace pitcrew::node::sandbox_device_plugin {
namespace {

using gpu::PciAddress;
using host::PciDevice;

constexpr std::uint16_t kVga = 0x0300;
constexpr std::uint16_t k3d = 0x0302;

PassthroughFunction::Kind KindOf(const PciDevice& device) {
  using Kind = PassthroughFunction::Kind;
  if (device.base_class() == kVga || device.base_class() == k3d) return Kind::kGpu;
  return host::IsNvSwitch(device) ? Kind::kSwitch : Kind::kCompanion;
}

std::optional<int> NumaNode(const PciDevice& device) {
  const int* node = device.numa_node.value();
  return node != nullptr ? std::optional(*node) : std::nullopt;
}

void AddFunction(const PciDevice& device, Machine& machine) {
  const auto name = device.address.SysfsName();
  if (const auto* error = device.driver.error()) {
    machine.unreadable.emplace(name, error->ToString());
    return;
  }
  if (!device.driver.is_present() || !host::IsVfioDriver(*device.driver.value())) return;
  if (const auto* error = device.iommu_group.error()) {
    machine.unreadable.emplace(name, error->ToString());
    return;
  }
  if (!device.iommu_group.is_present()) {
    machine.warnings.push_back(
        fmt::format("{} has a VFIO driver but no IOMMU group, and is left out: is the IOMMU on (in "
                    "the BIOS; on Intel machines also by the kernel argument intel_iommu=on)?",
                    name));
    return;
  }
  PassthroughFunction function;
  function.address = device.address;
  function.kind = KindOf(device);
  function.device = device.device;
  function.numa_node = NumaNode(device);
  function.iommu_group = *device.iommu_group.value();
  const auto vfio = host::VfioDeviceName(device);
  if (vfio.is_present()) function.vfio_name = *vfio.value();
  if (vfio.is_unknown()) function.vfio_name_unknown = vfio.error()->ToString();
  machine.functions.push_back(std::move(function));
}

// The kernel gives a group to a virtual machine only as a whole.
void NoteBlockedGroups(const std::vector<PciDevice>& devices, Machine& machine) {
  std::map<std::uint32_t, std::vector<PciDevice>> groups;
  for (const auto& device : devices) {
    if (const auto* group = device.iommu_group.value()) groups[*group].push_back(device);
  }
  for (const auto& [group, members] : groups) {
    const auto holders = host::HoldersOfGroup(members);
    if (holders.empty()) continue;
    const auto& holder = holders.front();
    const auto* driver = holder.driver.value();
    machine.blocked_groups[group] =
        fmt::format("{} has {}, which is in the same IOMMU group {}: take it from that driver, too",
                    driver != nullptr ? "driver " + *driver : "an unknown driver",
                    holder.address.SysfsName(), group);
  }
}

base::Result<host::PciScan> ReadPci(const host::Root& sys, Machine& machine) {
  const auto folder = sys.At("/sys/bus/pci/devices");
  auto scan = host::ReadPciDevices(folder);
  // A machine without PCI has nothing to offer.
  if (!scan && scan.error().code == base::Code::kNotFound) {
    machine.warnings.push_back(scan.error().ToString());
    return host::PciScan();
  }
  if (!scan || scan->failures.empty()) return scan;
  // Those that the scan leaves out, and that are there: for the others there is evidence.
  TRY_ASSIGN(const auto names, host::ListFolder(folder));
  for (const auto& name : names) {
    const auto address = PciAddress::Parse(name);
    if (!address || std::ranges::binary_search(scan->devices, *address, {}, &PciDevice::address)) {
      continue;
    }
    machine.unreadable.emplace(address->SysfsName(), scan->failures.front().ToString());
  }
  for (const auto& failure : scan->failures) machine.warnings.push_back(failure.ToString());
  return scan;
}

base::Status AddVgpus(const host::Root& sys, const host::PciScan& pci, Machine& machine) {
  const auto mdevs = host::ScanMdevs(sys);
  // The kernel has no mediated devices.
  if (!mdevs && mdevs.error().code == base::Code::kNotFound) return {};
  if (!mdevs) return base::Fail(mdevs.error());
  for (const auto& [uuid, error] : mdevs->unreadable) {
    machine.unreadable.emplace(uuid, error.ToString());
  }
  for (const auto& mdev : mdevs->devices) {
    const auto parent = std::ranges::lower_bound(pci.devices, mdev.parent, {}, &PciDevice::address);
    if (parent == pci.devices.end() || parent->address != mdev.parent) {
      machine.unreadable.emplace(
          mdev.uuid, fmt::format("its PCI device {} is not known", mdev.parent.SysfsName()));
      continue;
    }
    if (parent->vendor != host::kVendorNvidia) continue;
    machine.vgpus.push_back({mdev.uuid, VgpuName(mdev.type_name), NumaNode(*parent)});
  }
  return {};
}

// What is only of use where it is there.
void AddNodes(const host::Root& sys, const host::Root& dev, Machine& machine) {
  auto nodes = host::ListVfioNodes(dev);
  if (nodes) {
    machine.vfio_nodes = *std::move(nodes);
  } else if (nodes.error().code != base::Code::kNotFound) {
    machine.warnings.push_back(nodes.error().ToString());
  }
  auto egm = host::ReadEgmDevices(sys);
  if (!egm) {
    machine.warnings.push_back("GPU memory that GPUs have together (EGM) is not offered: " +
                               egm.error().ToString());
    return;
  }
  for (const auto& failure : egm->failures) machine.warnings.push_back(failure.ToString());
  for (auto& device : egm->devices) {
    const auto there = host::Exists(dev.At("/dev") / device.name);
    if (there && *there) {
      machine.egm.push_back(std::move(device));
    } else {
      machine.warnings.push_back(
          fmt::format("/dev/{} is not there, and no virtual machine gets it", device.name));
    }
  }
}

}  // namespace

const PassthroughFunction* Machine::Find(const PciAddress& address) const {
  const auto found =
      std::ranges::lower_bound(functions, address, {}, &PassthroughFunction::address);
  return found != functions.end() && found->address == address ? &*found : nullptr;
}

std::vector<const PassthroughFunction*> Machine::InGroup(std::uint32_t group) const {
  std::vector<const PassthroughFunction*> found;
  for (const auto& function : functions) {
    if (function.iommu_group == group) found.push_back(&function);
  }
  return found;
}

base::Result<Machine> ReadMachine(const host::Root& sys, const host::Root& dev) {
  Machine machine;
  auto iommufd = host::Exists(dev.At("/dev/iommu"));
  if (!iommufd) return base::Fail(iommufd.error().Within("could not determine iommufd support"));
  machine.iommufd = *iommufd;
  TRY_ASSIGN(const auto pci, ReadPci(sys, machine));
  NoteBlockedGroups(pci.devices, machine);
  for (const auto& device : pci.devices) {
    if (device.vendor == host::kVendorNvidia) AddFunction(device, machine);
  }
  TRY(AddVgpus(sys, pci, machine));
  AddNodes(sys, dev, machine);
  return machine;
}

}  // namespace pitcrew::node::sandbox_device_plugin
