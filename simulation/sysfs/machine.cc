#include "simulation/sysfs/machine.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <utility>

namespace pitcrew::simulation::sysfs {
namespace {

constexpr std::uint32_t kSwitchClass = 0x068000;

bool IsDisplay(std::uint32_t class_code) { return class_code >> 16 == 0x03; }
bool IsBridge(std::uint32_t class_code) { return class_code >> 8 == 0x0604; }

std::optional<FaultPoint> Point(std::size_t index) { return static_cast<FaultPoint>(index); }
constexpr std::array<std::string_view, 4> kFaultPoints = {"bind", "sriov", "vgpu", "reset"};

}  // namespace

std::optional<FaultPoint> FaultPointFrom(std::string_view word) {
  const auto found = std::ranges::find(kFaultPoints, word);
  if (found == kFaultPoints.end()) return std::nullopt;
  return Point(static_cast<std::size_t>(found - kFaultPoints.begin()));
}

std::string_view Name(FaultPoint point) { return kFaultPoints[static_cast<std::size_t>(point)]; }

Machine::Machine(Platform platform, std::vector<Device> devices, std::vector<Gpu> gpus)
    : platform_(std::move(platform)), gpus_(std::move(gpus)) {
  for (auto& device : devices) {
    if (!platform_.iommu) device.group.reset();
    const PciAddress address = device.address;
    const auto kind = SecurityProcessor::KindOf(device.ids.device, device.ids.class_code);
    if (kind && device.ids.vendor == kNvidiaVendor) processors_.emplace(address, *kind);
    devices_.emplace(address, std::move(device));
  }
  AddDrivers();
  for (auto& [address, device] : devices_) Attach(device);
  events_.clear();
}

// The drivers that every kernel has; NVIDIA's come with Load.
void Machine::AddDrivers() {
  const auto of_class = [](std::uint32_t first) {
    return [first](const PciIds& ids) { return ids.class_code >> 8 == first; };
  };
  const auto add = [this](Driver driver) { drivers_.emplace(driver.name, std::move(driver)); };
  add({"pcieport", "", Driver::Kind::kPlain, false, of_class(0x0604), {}});
  add({"snd_hda_intel", "snd_hda_intel", Driver::Kind::kPlain, false, of_class(0x0403), {}});
  add({"xhci_hcd", "xhci_pci", Driver::Kind::kPlain, false, of_class(0x0c03), {}});
  add({"i40e", "i40e", Driver::Kind::kPlain, true, of_class(0x0200), {}});
  add({"pci-pf-stub", "pci_pf_stub", Driver::Kind::kPlain, true, {}, {}});
  if (!platform_.vfio) return;
  add({"vfio-pci", "vfio_pci", Driver::Kind::kVfio, false, {}, {}});
  for (const auto& name : platform_.variants) {
    add({name, name, Driver::Kind::kVfio, false, {}, {}});
  }
}

const Device* Machine::Find(const PciAddress& address) const {
  const auto found = devices_.find(address);
  return found == devices_.end() ? nullptr : &found->second;
}

// The kernel compares with the device's whole name: no other spelling is found.
const Device* Machine::Find(std::string_view address) const {
  const auto parsed = PciAddress::Parse(WithoutNewline(address));
  if (!parsed || parsed->SysfsName() != WithoutNewline(address)) return nullptr;
  return Find(*parsed);
}

Device* Machine::Lookup(std::string_view address) {
  return const_cast<Device*>(std::as_const(*this).Find(address));
}

std::string Machine::DevicePath(const PciAddress& address) const {
  char root[32];
  std::snprintf(root, sizeof(root), "/devices/pci%04x:%02x/", address.domain, address.bus);
  return root + address.SysfsName();
}

void Machine::Announce(std::string action, const Device& device, std::string_view driver) {
  char ids[64];
  std::snprintf(ids, sizeof(ids), "%04X:%04X", device.ids.vendor, device.ids.device);
  char class_code[16];
  std::snprintf(class_code, sizeof(class_code), "%X", device.ids.class_code);
  Event event{std::move(action), DevicePath(device.address), {}};
  event.fields = {{"SUBSYSTEM", "pci"},
                  {"PCI_CLASS", class_code},
                  {"PCI_ID", ids},
                  {"PCI_SLOT_NAME", device.address.SysfsName()}};
  if (!driver.empty()) event.fields.emplace("DRIVER", driver);
  events_.push_back(std::move(event));
}

std::vector<Event> Machine::TakeEvents() { return std::exchange(events_, {}); }

// drivers/pci/pci-driver.c, pci_match_device: an override excludes all others and needs no id.
bool Machine::Matches(const Driver& driver, const Device& device) const {
  if (!device.driver_override.empty() && device.driver_override != driver.name) return false;
  const std::pair id{device.ids.vendor, device.ids.device};
  if (std::ranges::find(driver.dynamic_ids, id) != driver.dynamic_ids.end()) return true;
  if (driver.recognises && driver.recognises(device.ids)) return true;
  return !device.driver_override.empty();
}

// drivers/pci/pci-driver.c, pci_device_can_probe.
bool Machine::CanProbe(const Device& device) const {
  if (!device.physical || !device.driver_override.empty()) return true;
  const Device* physical = Find(*device.physical);
  return physical == nullptr || physical->probe_functions;
}

// drivers/base/dd.c, __driver_probe_device, and what the drivers' own probe functions refuse.
Errno Machine::Attach(const Driver& driver, Device& device) {
  if (!device.driver.empty()) return EBUSY;
  if (!CanProbe(device)) return ENODEV;
  if (const auto fault = device.faults.find(FaultPoint::kBind); fault != device.faults.end()) {
    return fault->second;
  }
  if (driver.kind == Driver::Kind::kVfio) {
    // drivers/vfio/pci/vfio_pci_core.c: no bridge, no device outside of a group, no physical
    // function whose virtual ones may be in use.
    if (IsBridge(device.ids.class_code) || !device.group) return EINVAL;
    if (device.functions != 0) return EBUSY;
  }
  if (driver.kind == Driver::Kind::kNvidia && device.physical) {
    // NVIDIA's probe function answers -1 for virtual functions without vGPU manager or IOMMU.
    if (platform_.framework == VgpuFramework::kNone || !device.group) return EPERM;
  }
  device.driver = driver.name;
  if (platform_.iommufd && IsVfioDevice(device)) device.character = FreeCharacter();
  Announce("bind", device, driver.name);
  return 0;
}

void Machine::Attach(Device& device) {
  if (!device.driver.empty()) return;
  for (const auto& [name, driver] : drivers_) {
    if (Matches(driver, device) && Attach(driver, device) == 0) return;
  }
}

void Machine::Detach(Device& device) {
  const std::string driver = std::exchange(device.driver, {});
  RemoveVgpusOf(device);
  device.character.reset();
  device.used = false;
  Announce("unbind", device, driver);
}

Errno Machine::Bind(std::string_view driver, std::string_view address) {
  const auto found = drivers_.find(driver);
  Device* device = Lookup(address);
  if (found == drivers_.end() || device == nullptr || !Matches(found->second, *device)) {
    return ENODEV;
  }
  return Attach(found->second, *device);
}

Errno Machine::Unbind(std::string_view driver, std::string_view address) {
  Device* device = Lookup(address);
  if (device == nullptr || device->driver != driver) return ENODEV;
  Detach(*device);
  return 0;
}

Errno Machine::Probe(std::string_view address) {
  Device* device = Lookup(address);
  if (device == nullptr) return ENODEV;
  Attach(*device);
  return 0;
}

// drivers/base/driver.c, driver_set_override: up to the first newline; nothing before it clears.
Errno Machine::SetOverride(const PciAddress& address, std::string_view value) {
  const auto found = devices_.find(address);
  if (found == devices_.end()) return ENODEV;
  found->second.driver_override = value.substr(0, value.find('\n'));
  return 0;
}

namespace {

// "10de 2330 ...", of which the first two count here.
std::optional<std::pair<std::uint16_t, std::uint16_t>> ParseIds(std::string_view value) {
  unsigned vendor = 0;
  unsigned device = 0;
  if (std::sscanf(std::string(value).c_str(), "%x %x", &vendor, &device) != 2) return std::nullopt;
  return std::pair{static_cast<std::uint16_t>(vendor), static_cast<std::uint16_t>(device)};
}

}  // namespace

Errno Machine::AddId(std::string_view driver, std::string_view value) {
  const auto found = drivers_.find(driver);
  if (found == drivers_.end()) return ENODEV;
  const auto id = ParseIds(value);
  if (!id) return EINVAL;
  Device example;
  example.ids = {id->first, id->second, 0, 0, 0};
  if (Matches(found->second, example)) return EEXIST;
  found->second.dynamic_ids.push_back(*id);
  for (auto& [address, device] : devices_) {
    if (device.driver.empty() && Matches(found->second, device))
      (void)Attach(found->second, device);
  }
  return 0;
}

Errno Machine::RemoveId(std::string_view driver, std::string_view value) {
  const auto found = drivers_.find(driver);
  if (found == drivers_.end()) return ENODEV;
  const auto id = ParseIds(value);
  if (!id) return EINVAL;
  return std::erase(found->second.dynamic_ids, *id) == 0 ? ENODEV : 0;
}

Errno Machine::SetAutoprobe(std::string_view value) {
  // drivers/base/bus.c: only whether the first letter is 0 counts.
  autoprobe_ = !value.starts_with('0');
  return 0;
}

Errno Machine::Load(std::string_view driver, NvidiaModule module) {
  if (driver != "nvidia") return ENOENT;
  if (drivers_.contains(driver)) return EEXIST;
  module.loads = nvidia_.loads + 1;
  nvidia_ = std::move(module);
  drivers_.emplace("nvidia", Driver{"nvidia",
                                    "nvidia",
                                    Driver::Kind::kNvidia,
                                    false,
                                    [](const PciIds& ids) {
                                      return ids.vendor == kNvidiaVendor &&
                                             IsDisplay(ids.class_code);
                                    },
                                    {}});
  drivers_.emplace("nvidia-nvswitch", Driver{"nvidia-nvswitch",
                                             "nvidia",
                                             Driver::Kind::kSwitch,
                                             false,
                                             [](const PciIds& ids) {
                                               return ids.vendor == kNvidiaVendor &&
                                                      ids.class_code == kSwitchClass;
                                             },
                                             {}});
  if (!autoprobe_) return 0;
  for (auto& [address, device] : devices_) Attach(device);
  return 0;
}

Errno Machine::Unload(std::string_view driver) {
  if (driver != "nvidia" || !drivers_.contains(driver)) return ENOENT;
  const auto of_module = [&](const Device& device) {
    return device.driver == "nvidia" || device.driver == "nvidia-nvswitch";
  };
  for (const auto& [address, device] : devices_) {
    if (of_module(device) && device.used) return EBUSY;
  }
  const bool mdev_used =
      std::ranges::any_of(mdevs_, [](const auto& one) { return one.second.used; });
  if (mdev_used) return EBUSY;
  for (auto& [address, device] : devices_) {
    if (of_module(device)) Detach(device);
  }
  drivers_.erase("nvidia");
  drivers_.erase("nvidia-nvswitch");
  return 0;
}

Errno Machine::SetFault(std::string_view address, FaultPoint point, Errno error) {
  Device* device = Lookup(address);
  if (device == nullptr) return ENODEV;
  if (error == 0) {
    device->faults.erase(point);
  } else {
    device->faults[point] = error;
  }
  return 0;
}

Errno Machine::Reset(const PciAddress& address) {
  const Device* device = Find(address);
  if (device == nullptr) return ENODEV;
  const auto fault = device->faults.find(FaultPoint::kReset);
  if (fault != device->faults.end()) return fault->second;
  const auto processor = processors_.find(address);
  if (processor != processors_.end()) processor->second.Reset();
  return 0;
}

SecurityProcessor* Machine::Processor(std::string_view address, std::size_t offset) {
  const Device* device = Find(address);
  if (device == nullptr || offset % 4 != 0 || offset >= kRegisterBytes) return nullptr;
  const auto processor = processors_.find(device->address);
  return processor == processors_.end() ? nullptr : &processor->second;
}

bool Machine::ReadRegister(std::string_view address, std::size_t offset, std::uint32_t& value) {
  SecurityProcessor* processor = Processor(address, offset);
  if (processor != nullptr) value = processor->Read(offset);
  return processor != nullptr;
}

bool Machine::WriteRegister(std::string_view address, std::size_t offset, std::uint32_t value) {
  SecurityProcessor* processor = Processor(address, offset);
  if (processor != nullptr) processor->Write(offset, value);
  return processor != nullptr;
}

Errno Machine::SetUsed(std::string_view name, bool used) {
  if (const auto mdev = mdevs_.find(WithoutNewline(name)); mdev != mdevs_.end()) {
    mdev->second.used = used;
    return 0;
  }
  Device* device = Lookup(name);
  if (device == nullptr) return ENODEV;
  if (used && !IsVfioDevice(*device)) return ENXIO;
  device->used = used;
  return 0;
}

bool Machine::IsVfioDevice(const Device& device) const {
  const auto driver = drivers_.find(device.driver);
  if (driver == drivers_.end()) return false;
  return driver->second.kind == Driver::Kind::kVfio || HasVendorAttributes(device);
}

std::set<std::uint32_t> Machine::VfioGroups() const {
  std::set<std::uint32_t> groups;
  for (const auto& [address, device] : devices_) {
    if (device.group && IsVfioDevice(device)) groups.insert(*device.group);
  }
  for (const auto& [uuid, mdev] : mdevs_) groups.insert(mdev.group);
  return groups;
}

std::uint32_t Machine::FreeGroup() const {
  std::set<std::uint32_t> taken;
  for (const auto* devices : {&devices_, &unplugged_}) {
    for (const auto& [address, device] : *devices) {
      if (device.group) taken.insert(*device.group);
    }
  }
  for (const auto& [uuid, mdev] : mdevs_) taken.insert(mdev.group);
  std::uint32_t group = kFirstGroup;
  while (taken.contains(group)) ++group;
  return group;
}

std::uint32_t Machine::FreeCharacter() const {
  std::set<std::uint32_t> taken;
  for (const auto& [address, device] : devices_) {
    if (device.character) taken.insert(*device.character);
  }
  std::uint32_t character = 0;
  while (taken.contains(character)) ++character;
  return character;
}

}  // namespace pitcrew::simulation::sysfs
