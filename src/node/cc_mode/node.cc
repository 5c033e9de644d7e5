#include "node/cc_mode/node.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/log.h"
#include "base/strings.h"
#include "host/device_users.h"
#include "host/iommu.h"
#include "host/pci.h"
#include "host/sysfs.h"
#include "host/vfio_device.h"
#include "node/cc_mode/device.h"
#include "node/cc_mode/journal.h"

namespace pitcrew::node::cc_mode {
namespace {

base::Result<std::vector<host::PciDevice>> ReadDevices(const Settings& settings) {
  TRY_ASSIGN(auto scan, host::ReadPciDevices(settings.root.At("/sys/bus/pci/devices")));
  if (!scan.failures.empty()) {
    return base::Fail(base::Unavailable(
        "DevicesUnreadable", fmt::format("a PCI device cannot be read, and it may be a GPU: {}",
                                         scan.failures.front().message)));
  }
  std::erase_if(scan.devices, [](const host::PciDevice& device) {
    if (device.vendor != host::kVendorNvidia) return true;
    return !device.is_display_controller() && !host::IsNvSwitch(device);
  });
  return std::move(scan.devices);
}

// Adds the device to the plan; the error when it cannot be in the mode that is wanted.
base::Status Look(const Settings& settings, const host::PciDevice& pci, Plan& plan) {
  const bool is_switch = host::IsNvSwitch(pci);
  // A switch counts for protected PCIe only, which a change to another mode takes away.
  const auto device = Device::Open(settings, pci);
  if (!device && device.error().reason == "NotCapable") {
    if (plan.wanted == Mode::kOff || (is_switch && plan.wanted != Mode::kPpcie)) {
      if (!is_switch) plan.incapable.push_back(pci.address.SysfsName());
      return {};
    }
    return base::Fail(device.error());
  }
  if (!device) return base::Fail(device.error());
  TRY_ASSIGN(const Mode mode, device->ReadMode());
  plan.devices.push_back({.address = pci.address, .is_switch = is_switch, .mode = mode});
  const bool stays_off = is_switch && plan.wanted != Mode::kPpcie;
  if (stays_off ? mode != Mode::kOff : mode != plan.wanted) {
    plan.changes.push_back(plan.devices.back());
  }
  if (stays_off || device->Can(plan.wanted)) return {};
  return base::Fail(base::Error{
      base::Code::kUnsupported, "NotCapable",
      fmt::format("{} has no mode {}", pci.address.SysfsName(), ToString(plan.wanted))});
}

base::Status RequireFree(const Settings& settings, const std::vector<DeviceMode>& wanted,
                         bool drivers) {
  if (wanted.empty()) return {};
  TRY_ASSIGN(const auto devices, ReadDevices(settings));
  TRY_ASSIGN(const auto users, host::ListVfioUsers(settings.processes.At("/proc")));
  std::vector<std::string> held;
  for (const auto& change : wanted) {
    const auto device = std::ranges::find(devices, change.address, &host::PciDevice::address);
    if (device == devices.end()) continue;
    const auto name = change.address.SysfsName();
    TRY_ASSIGN(const auto nodes, host::VfioNodes(device->folder));
    for (const auto& node : nodes) {
      const auto found = users.find(node);
      if (found == users.end()) continue;
      for (const auto& user : found->second) {
        held.push_back(fmt::format("{} is held by {}", name, user.ToString()));
      }
    }
    if (device->driver.is_unknown()) {
      return base::Fail(base::Unavailable("DriverUnknown",
                                          fmt::format("which driver has {} cannot be read", name)));
    }
    const auto* driver = device->driver.value();
    if (!drivers || driver == nullptr || host::IsPassthroughDriver(*driver)) continue;
    return base::Fail(base::Error{
        base::Code::kConflict, "DriverBound",
        fmt::format(
            "{} has the driver {}, which must not see its mode change: take the GPU from it "
            "(vfio-manage bind --all does)",
            name, *driver)});
  }
  if (held.empty()) return {};
  std::ranges::sort(held);
  held.erase(std::ranges::unique(held).begin(), held.end());
  return base::Fail(base::Error{base::Code::kConflict, "InUse", base::Join(held, ", ")});
}

bool IsSet(const host::Root& root, std::string_view parameter) {
  const auto value = host::ReadAttribute(root.At(parameter));
  return value && (*value == "Y" || *value == "y" || *value == "1");
}

}  // namespace

base::Result<Plan> PlanNode(const Settings& settings, Mode wanted) {
  Plan plan;
  plan.wanted = wanted;
  TRY_ASSIGN(const auto devices, ReadDevices(settings));
  if (std::ranges::none_of(devices,
                           [](const auto& device) { return device.is_display_controller(); })) {
    return base::Fail(base::NotFound("NoGpus", "this node has no GPU of NVIDIA"));
  }
  std::vector<std::string> incapable;
  for (const auto& device : devices) {
    const auto looked = Look(settings, device, plan);
    if (looked) continue;
    if (looked.error().reason != "NotCapable") return base::Fail(looked.error());
    incapable.push_back(looked.error().message);
  }
  if (!incapable.empty()) {
    return base::Fail(
        base::Error{base::Code::kUnsupported, "NotCapable", base::Join(incapable, "; ")});
  }
  TRY_ASSIGN(const bool cut_off, FileOf(settings).Exists());
  if (cut_off) plan.changes = plan.devices;
  return plan;
}

base::Status RequireUnused(const Settings& settings, const std::vector<DeviceMode>& devices) {
  return RequireFree(settings, devices, true);
}

base::Status RequireNoMachines(const Settings& settings, const std::vector<DeviceMode>& devices) {
  return RequireFree(settings, devices, false);
}

bool IsHostCapable(const host::Root& root) {
  return IsSet(root, "/sys/module/kvm_intel/parameters/tdx") ||
         IsSet(root, "/sys/module/kvm_amd/parameters/sev_snp");
}

}  // namespace pitcrew::node::cc_mode
