#include "node/sandbox_device_plugin/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "gpu/device_names.h"
#include "host/iommu.h"
#include "host/mdev.h"
#include "host/pci.h"
#include "host/vendor_vgpu.h"

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

// Of a device that a virtual machine can have as it is; nothing, with a warning or a note of what
// is not known, when there is something about it.
std::optional<PassthroughFunction> ReadFunction(const PciDevice& device, Machine& machine) {
  const auto name = device.address.SysfsName();
  if (const auto* error = device.iommu_group.error()) {
    machine.unreadable.emplace(name, error->ToString());
    return std::nullopt;
  }
  if (!device.iommu_group.is_present()) {
    machine.warnings.push_back(
        fmt::format("{} has a VFIO driver but no IOMMU group, and is left out: is the IOMMU on (in "
                    "the BIOS; on Intel machines also by the kernel argument intel_iommu=on)?",
                    name));
    return std::nullopt;
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
  return function;
}

void AddFunction(const PciDevice& device, Machine& machine) {
  if (const auto* error = device.driver.error()) {
    machine.unreadable.emplace(device.address.SysfsName(), error->ToString());
    return;
  }
  if (!device.driver.is_present() || !host::IsVfioDriver(*device.driver.value())) return;
  if (auto function = ReadFunction(device, machine)) {
    machine.functions.push_back(*std::move(function));
  }
}

// Virtual functions of the vendor-specific VFIO framework, with NVIDIA's driver.
class VendorVgpus {
 public:
  VendorVgpus(const host::Root& sys, Machine& machine) : sys_(sys), machine_(machine) {}

  // Notes the types that the function's GPU has room for; true when the function is of the
  // framework.
  bool Learn(const PciDevice& function) {
    if (const auto* error = function.physical_function.error()) {
      machine_.unreadable.emplace(function.address.SysfsName(), error->ToString());
      return false;
    }
    const auto* gpu = function.physical_function.value();
    if (gpu == nullptr) return false;
    const auto has = host::HasVendorVgpus(sys_, function.address);
    if (!has) machine_.unreadable.emplace(function.address.SysfsName(), has.error().ToString());
    if (!has || !*has) return false;
    const auto told = host::CreatableVgpuTypes(sys_, function.address);
    if (told) machine_.known_types.Learn(*gpu, *told);
    functions_.push_back(&function);
    return true;
  }

  // After all functions of the GPUs have told what they know.
  void Add() const {
    for (const auto* function : functions_) Add(*function);
  }

 private:
  void Add(const PciDevice& device) const {
    const auto name = device.address.SysfsName();
    const auto type = host::CurrentVgpuType(sys_, device.address);
    if (!type && type.error().code == base::Code::kNotFound) return;
    if (!type) {
      machine_.unreadable.emplace(name, type.error().ToString());
      return;
    }
    if (*type == 0) return;
    const auto& gpu = *device.physical_function.value();
    const auto title = machine_.known_types.NameOf(gpu, *type);
    if (title.empty()) {
      machine_.warnings.push_back(fmt::format(
          "{} is a vGPU of type {} and is left out: what that type is called is not known, as {} "
          "is full and {} does not have it. The vGPU device manager writes it there; or remove "
          "one vGPU of the GPU for a moment",
          name, *type, gpu.SysfsName(), vgpu_types::kKnownTypesFile));
      return;
    }
    auto function = ReadFunction(device, machine_);
    if (!function) return;
    function->kind = PassthroughFunction::Kind::kVgpu;
    function->vgpu_type = gpu::VgpuName(title);
    machine_.functions.push_back(*std::move(function));
  }

  const host::Root& sys_;
  Machine& machine_;
  std::vector<const PciDevice*> functions_;
};

void AddFunctions(const host::Root& sys, const std::vector<PciDevice>& devices, Machine& machine) {
  VendorVgpus vgpus(sys, machine);
  for (const auto& device : devices) {
    if (device.vendor == host::kVendorNvidia && !vgpus.Learn(device)) AddFunction(device, machine);
  }
  vgpus.Add();
  std::ranges::sort(machine.functions, {}, &PassthroughFunction::address);
}

// NVIDIA's driver is a VFIO driver for them, and keeps nobody from their group.
base::Result<bool> IsOfVendorFramework(const host::Root& sys, const PciDevice& device) {
  if (device.vendor != host::kVendorNvidia) return false;
  if (const auto* error = device.physical_function.error()) return base::Fail(*error);
  if (!device.physical_function.is_present()) return false;
  return host::HasVendorVgpus(sys, device.address);
}

// Why the group cannot be given away as long as `holder` is in it; "" when it can.
std::string WhyBlocked(const host::Root& sys, std::uint32_t group, const PciDevice& holder) {
  const auto name = holder.address.SysfsName();
  const auto is_vgpu = IsOfVendorFramework(sys, holder);
  if (!is_vgpu) {
    return fmt::format(
        "whether {}, which is in the same IOMMU group {}, is a vGPU cannot be read: "
        "{}",
        name, group, is_vgpu.error().ToString());
  }
  if (*is_vgpu) return "";
  const auto* driver = holder.driver.value();
  return fmt::format(
      "{} has {}, which is in the same IOMMU group {}: take it from that driver, too",
      driver != nullptr ? "driver " + *driver : "an unknown driver", name, group);
}

// The kernel gives a group to a virtual machine only as a whole.
void NoteBlockedGroups(const host::Root& sys, const std::vector<PciDevice>& devices,
                       Machine& machine) {
  std::map<std::uint32_t, std::vector<PciDevice>> groups;
  for (const auto& device : devices) {
    if (const auto* group = device.iommu_group.value()) groups[*group].push_back(device);
  }
  for (const auto& [group, members] : groups) {
    for (const auto& holder : host::HoldersOfGroup(members)) {
      auto why = WhyBlocked(sys, group, holder);
      if (why.empty()) continue;
      machine.blocked_groups[group] = std::move(why);
      break;
    }
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
    machine.vgpus.push_back({mdev.uuid, gpu::VgpuName(mdev.type_name), NumaNode(*parent)});
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

base::Result<Machine> ReadMachine(const host::Root& sys, const host::Root& dev,
                                  vgpu_types::KnownTypes known_types) {
  Machine machine;
  machine.known_types = std::move(known_types);
  auto iommufd = host::Exists(dev.At("/dev/iommu"));
  if (!iommufd) return base::Fail(iommufd.error().Within("could not determine iommufd support"));
  machine.iommufd = *iommufd;
  TRY_ASSIGN(const auto pci, ReadPci(sys, machine));
  NoteBlockedGroups(sys, pci.devices, machine);
  AddFunctions(sys, pci.devices, machine);
  TRY(AddVgpus(sys, pci, machine));
  AddNodes(sys, dev, machine);
  return machine;
}

}  // namespace pitcrew::node::sandbox_device_plugin
