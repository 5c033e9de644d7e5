#include "node/device_plugin/known_gpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace pitcrew::node::device_plugin {
namespace {

bool IsComplete(const gpu::Device& device) { return !device.fault && !device.uuid.empty(); }

// Gives GPUs that did not tell their UUID the one that is missing: where as many are missing as are
// nameless, in the order of indices, else at the same index.
void Identify(std::vector<gpu::Device>& devices, std::vector<const gpu::Device*> missing) {
  std::vector<gpu::Device*> nameless;
  for (auto& device : devices) {
    if (device.uuid.empty()) nameless.push_back(&device);
  }
  const bool in_order = nameless.size() == missing.size();
  for (std::size_t i = 0; i < nameless.size(); ++i) {
    const auto* same = in_order ? missing[i] : nullptr;
    const auto found = std::ranges::find(missing, nameless[i]->index, &gpu::Device::index);
    if (!in_order && found != missing.end()) same = *found;
    if (same != nullptr) nameless[i]->uuid = same->uuid;
  }
}

}  // namespace

KnownGpus::View KnownGpus::Update(gpu::Inventory read,
                                  const std::optional<std::set<gpu::PciAddress>>& pci_devices) {
  std::vector<const gpu::Device*> missing;
  for (const auto& device : before_) {
    if (read.FindDevice(device.uuid) == nullptr) missing.push_back(&device);
  }
  Identify(read.devices, missing);
  for (const auto* device : missing) {
    if (read.FindDevice(device->uuid) != nullptr) continue;
    if (pci_devices && !pci_devices->contains(device->pci)) continue;
    auto& unlisted = read.devices.emplace_back(*device);
    unlisted.fault = base::Unavailable(
        "GpuNotListed", fmt::format("GPU {} ({}) is on the PCI bus, but NVML no longer lists it",
                                    device->index, device->pci.SysfsName()));
  }

  View view{.now = std::move(read), .last_read = {}};
  for (auto& device : view.now.devices) {
    const auto known = std::ranges::find(before_, device.uuid, &gpu::Device::uuid);
    if (!device.fault || device.uuid.empty() || known == before_.end()) continue;
    auto as_before = *known;
    as_before.index = device.index;
    as_before.fault = std::move(device.fault);
    device = std::move(as_before);
  }
  view.last_read = view.now;
  for (auto& device : view.last_read.devices) {
    const auto known = std::ranges::find(before_, device.uuid, &gpu::Device::uuid);
    if (!device.uuid.empty() && known != before_.end()) device.fault.reset();
  }

  std::vector<gpu::Device> next;
  std::ranges::copy_if(view.last_read.devices, std::back_inserter(next), IsComplete);
  before_ = std::move(next);
  return view;
}

}  // namespace pitcrew::node::device_plugin
