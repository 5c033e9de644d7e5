#include "node/vfio/bundle.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "base/strings.h"
#include "host/iommu.h"

namespace pitcrew::node::vfio {
namespace {

using gpu::PciAddress;
using host::PciDevice;

bool SameSlot(const PciAddress& a, const PciAddress& b) {
  return a.domain == b.domain && a.bus == b.bus && a.device == b.device;
}

std::vector<PciDevice> CompanionsOf(const Node& node, const PciDevice& device) {
  std::set<PciAddress> addresses;
  if (const auto found = node.consumers.find(device.address); found != node.consumers.end()) {
    addresses.insert(found->second.begin(), found->second.end());
  }
  if (const auto* group = device.iommu_group.value(); group && IsGpu(device)) {
    for (const auto& member : node.groups.at(*group)) {
      const auto* function = node.Find(member);
      const bool board = function != nullptr && function->vendor == host::kVendorNvidia &&
                         SameSlot(member, device.address) && !IsGpu(*function) &&
                         !host::IsBridge(*function) && !host::IsNvSwitch(*function);
      if (board) addresses.insert(member);
    }
  }
  std::vector<PciDevice> companions;
  for (const auto& address : addresses) {
    const auto* function = node.Find(address);
    if (function != nullptr && address != device.address) companions.push_back(*function);
  }
  return companions;
}

std::set<std::uint32_t> GroupsOf(const Bundle& bundle) {
  std::set<std::uint32_t> groups;
  for (const auto& function : bundle.functions()) {
    if (const auto* group = function.iommu_group.value()) groups.insert(*group);
  }
  return groups;
}

bool ShareAGroup(const Bundle& a, const Bundle& b) {
  const auto first = GroupsOf(a);
  const auto second = GroupsOf(b);
  return std::ranges::any_of(first, [&](auto group) { return second.contains(group); });
}

}  // namespace

std::vector<PciDevice> Bundle::functions() const {
  std::vector<PciDevice> functions;
  for (const auto& unit : units) {
    functions.push_back(unit.device);
    std::ranges::copy(unit.companions, std::back_inserter(functions));
  }
  return functions;
}

bool Bundle::Has(const PciAddress& address) const {
  return std::ranges::any_of(functions(),
                             [&](const auto& function) { return function.address == address; });
}

std::string Bundle::Name() const {
  std::vector<std::string> names;
  for (const auto& unit : units) names.push_back(unit.device.address.SysfsName());
  return base::Join(names, " and ");
}

base::Result<std::vector<PciDevice>> SelectDevices(const Node& node, const Selection& selection) {
  std::vector<PciDevice> devices;
  if (selection.device) {
    const auto* device = node.Find(*selection.device);
    if (device == nullptr) {
      return base::Fail(base::NotFound(
          "NoSuchDevice",
          fmt::format("there is no PCI device {}, or it cannot be read; NVIDIA's are listed by "
                      "vfio-manage status",
                      selection.device->SysfsName())));
    }
    if (IsGpu(*device) || (selection.switches && host::IsNvSwitch(*device))) {
      devices.push_back(*device);
    }
    return devices;
  }
  devices = host::NvidiaGpus(node.scan);
  std::erase_if(devices, [&](const PciDevice& gpu) {
    return (selection.only && !selection.only->contains(gpu.address)) ||
           selection.except.contains(gpu.address);
  });
  if (selection.switches) {
    std::ranges::copy_if(node.scan.devices, std::back_inserter(devices), host::IsNvSwitch);
  }
  return devices;
}

std::vector<Bundle> MakeBundles(const Node& node, const std::vector<PciDevice>& devices) {
  std::vector<Bundle> bundles;
  for (const auto& device : devices) {
    Bundle bundle{{{device, CompanionsOf(node, device)}}};
    // One that shares a group with several joins them all.
    for (auto other = bundles.begin(); other != bundles.end();) {
      if (!ShareAGroup(*other, bundle)) {
        ++other;
        continue;
      }
      other->units.insert(other->units.end(), bundle.units.begin(), bundle.units.end());
      bundle = std::move(*other);
      other = bundles.erase(other);
    }
    bundles.push_back(std::move(bundle));
  }
  for (auto& bundle : bundles) {
    std::ranges::sort(bundle.units, {}, [](const Unit& unit) { return unit.device.address; });
  }
  return bundles;
}

}  // namespace pitcrew::node::vfio
