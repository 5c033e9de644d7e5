#include "kubevirt/offers.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/labels.h"
#include "base/strings.h"

namespace pitcrew::kubevirt {
namespace {

using codec::Json;

// Quantities of devices are whole numbers.
std::int64_t Amount(const Json& value) {
  if (value.is_number_integer()) return value.get<std::int64_t>();
  return value.is_string() ? base::ParseInteger(value.get<std::string>()).value_or(0) : 0;
}

std::map<std::string, std::int64_t, std::less<>> ReadResources(const Json& node,
                                                               std::string_view list) {
  std::map<std::string, std::int64_t, std::less<>> resources;
  const Json* values = codec::Find(node, {"status", list});
  if (values == nullptr || !values->is_object()) return resources;
  for (const auto& [resource, amount] : values->items()) {
    if (!resource.starts_with(api::kResourcePrefix) || IsForContainers(resource)) continue;
    resources[resource] = Amount(amount);
  }
  return resources;
}

// A vGPU type ends with the size of its frame buffer and its series, of which MIG-backed ones may
// have attributes: NVIDIA_A10-24Q, GRID_T4-1B, NVIDIA_A100-1-5CME (vgpu-device-manager.md). Names
// of GPUs have no hyphen.
bool IsVgpuType(std::string_view name) {
  const auto hyphen = name.rfind('-');
  if (hyphen == std::string_view::npos || hyphen == 0) return false;
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto is_letter = [](char c) { return c >= 'A' && c <= 'Z'; };
  std::string_view size = name.substr(hyphen + 1);
  const auto digits =
      static_cast<std::size_t>(std::ranges::find_if_not(size, is_digit) - size.begin());
  size.remove_prefix(digits);
  return digits > 0 && !size.empty() && std::ranges::all_of(size, is_letter);
}

}  // namespace

bool IsForContainers(std::string_view resource) {
  return resource == api::kGpuResource || resource == "nvidia.com/gpu.shared" ||
         resource.starts_with(api::kMigResourcePrefix);
}

bool HasPluginLabel(const Json& node) {
  return codec::Find(node, {"metadata", "labels", api::kDeploySandboxDevicePlugin}) != nullptr;
}

MachineNode ReadMachineNode(const Json& node) {
  return {.name = codec::FindString(node, {"metadata", "name"}),
          .workload = codec::FindString(node, {"metadata", "labels", api::kWorkloadConfig}),
          .paused = !RunsPlugin(
              codec::FindString(node, {"metadata", "labels", api::kDeploySandboxDevicePlugin})),
          .capacity = ReadResources(node, "capacity"),
          .allocatable = ReadResources(node, "allocatable")};
}

std::set<std::string> ReadNamedResources(const Json& machine) {
  std::set<std::string> named;
  const Json* devices = codec::Find(machine, {"spec", "template", "spec", "domain", "devices"});
  if (devices == nullptr) devices = codec::Find(machine, {"spec", "domain", "devices"});
  if (devices == nullptr) return named;
  for (const char* list : {"gpus", "hostDevices"}) {
    const Json* entries = codec::Find(*devices, {list});
    if (entries == nullptr || !entries->is_array()) continue;
    for (const Json& entry : *entries) {
      auto name = codec::FindString(entry, {"deviceName"});
      if (!name.empty()) named.insert(std::move(name));
    }
  }
  return named;
}

std::vector<Entry> EntriesFor(std::string_view resource, const gpu::DeviceNames& names) {
  std::vector<Entry> entries;
  if (!resource.starts_with(api::kResourcePrefix) || IsForContainers(resource)) return entries;
  const std::string_view name = resource.substr(api::kResourcePrefix.size());
  for (const std::uint16_t device : names.CalledForKubevirt(name)) {
    entries.push_back({.list = List::kPci,
                       .selector = fmt::format("10DE:{:04X}", device),
                       .resource = std::string(resource),
                       .external = true});
  }
  if (entries.empty() && IsVgpuType(name)) {
    std::string type(name);
    std::ranges::replace(type, '_', ' ');
    entries.push_back({.list = List::kMediated,
                       .selector = std::move(type),
                       .resource = std::string(resource),
                       .external = true});
  }
  return entries;
}

}  // namespace pitcrew::kubevirt
