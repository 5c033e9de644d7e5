#include "node/device_plugin/resources.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "api/labels.h"
#include "rpc/device_plugin.h"

namespace pitcrew::node::device_plugin {
namespace {

using base::Result;
using base::Status;

std::optional<std::int64_t> NumaNode(const gpu::Device& device, const NodeFacts& facts) {
  const auto found = facts.numa_nodes.find(device.pci);
  if (found == facts.numa_nodes.end() || found->second < 0) return std::nullopt;
  return found->second;
}

// Nothing when all that matters could be read.
std::string WhyUnfit(const gpu::Device& device) {
  if (device.fault) return device.fault->ToString();
  if (const auto* error = device.mig_mode.error()) return error->ToString();
  return "";
}

// One that did not even tell its UUID: the kubelet counts it, and nobody can get it.
OfferedDevice NamelessGpu(const gpu::Device& device) {
  OfferedDevice nameless;
  nameless.id = nameless.uuid = nameless.gpu_uuid =
      fmt::format("unidentified-gpu-{}", device.index);
  nameless.index = std::to_string(device.index);
  nameless.unfit = device.fault ? device.fault->ToString() : std::string("it has no UUID");
  return nameless;
}

OfferedDevice WholeGpu(const gpu::Device& device, const NodeFacts& facts) {
  return {.id = device.uuid,
          .uuid = device.uuid,
          .index = std::to_string(device.index),
          .paths = {fmt::format("/dev/nvidia{}", device.minor_number)},
          .numa_node = NumaNode(device, facts),
          .gpu_uuid = device.uuid,
          .gpu_instance = {},
          .compute_instance = {},
          .unfit = WhyUnfit(device)};
}

Result<OfferedDevice> MigPart(const gpu::Device& parent, const gpu::MigDevice& part,
                              const NodeFacts& facts) {
  const auto& minors = facts.mig_minors;
  const auto gpu_instance = minors.gpu_instances.find({parent.minor_number, part.gpu_instance_id});
  const auto compute_instance = minors.compute_instances.find(
      {parent.minor_number, part.gpu_instance_id, part.compute_instance_id});
  if (gpu_instance == minors.gpu_instances.end() ||
      compute_instance == minors.compute_instances.end()) {
    return base::Fail(base::Invalid(
        "MigMinorMissing",
        fmt::format("the driver names no capability device for GPU {} instance {}/{} ({}) in "
                    "/proc/driver/nvidia-caps/mig-minors",
                    parent.index, part.gpu_instance_id, part.compute_instance_id, part.uuid)));
  }
  return OfferedDevice{
      .id = part.uuid,
      .uuid = part.uuid,
      .index = fmt::format("{}:{}", parent.index, part.index),
      .paths = {fmt::format("/dev/nvidia{}", parent.minor_number),
                fmt::format("/dev/nvidia-caps/nvidia-cap{}", gpu_instance->second),
                fmt::format("/dev/nvidia-caps/nvidia-cap{}", compute_instance->second)},
      .numa_node = NumaNode(parent, facts),
      .gpu_uuid = parent.uuid,
      .gpu_instance = part.gpu_instance_id,
      .compute_instance = part.compute_instance_id,
      .unfit = WhyUnfit(parent)};
}

// Whether every MIG device of the node is of one kind, as `single` needs it.
Status CheckAlike(const gpu::Inventory& inventory) {
  const gpu::MigDevice* first = nullptr;
  for (const auto& device : inventory.devices) {
    if (!device.IsMigEnabled()) continue;
    if (device.mig_devices.empty() && !device.fault) {
      return base::Fail(base::Invalid(
          "MigGpuWithoutDevices",
          fmt::format("GPU {} has MIG enabled but no MIG device; the MIG strategy single needs all "
                      "GPUs divided alike",
                      device.index)));
    }
    for (const auto& part : device.mig_devices) {
      if (first == nullptr) first = &part;
      if (part.attributes == first->attributes) continue;
      return base::Fail(base::Invalid(
          "MixedMigTypes", fmt::format("more than one MIG device type: {} and {}; the MIG strategy "
                                       "single needs all GPUs divided alike",
                                       first->profile.Name(), part.profile.Name())));
    }
  }
  return {};
}

// The resource of a MIG device, or nothing when it gets none.
std::optional<std::string> ResourceOf(const gpu::Device& parent, const gpu::MigDevice& part,
                                      gpu::MigStrategy strategy, Resources& resources) {
  if (strategy == gpu::MigStrategy::kSingle) return std::string(api::kGpuResource);
  if (part.profile.compute_slices == part.profile.gpu_slices) {
    return gpu::MigResourceName(part.profile);
  }
  // Such a part shares its GPU instance with others; it has no resource name of its own.
  resources.warnings.push_back(fmt::format(
      "GPU {} MIG device {} ({}) is not offered: only MIG devices that fill their GPU instance are",
      parent.index, part.index, part.profile.Name()));
  return std::nullopt;
}

Status AddMigDevices(const gpu::Device& device, gpu::MigStrategy strategy, const NodeFacts& facts,
                     Resources& resources) {
  if (device.mig_devices.empty() && !device.fault) {
    resources.warnings.push_back(fmt::format(
        "GPU {} has MIG enabled but no MIG device: nothing of it is offered", device.index));
  }
  for (const auto& part : device.mig_devices) {
    const auto resource = ResourceOf(device, part, strategy, resources);
    if (!resource) continue;
    auto offered = MigPart(device, part, facts);
    // Of a GPU that is away the driver may have taken the instances away, too.
    if (!offered && device.fault) continue;
    TRY(offered);
    resources.devices[*resource].push_back(*std::move(offered));
  }
  return {};
}

// Bytes of the list with so many replicas of each device, without making them: ids differ only in
// the number of digits.
std::size_t ReplicatedListSize(const std::vector<OfferedDevice>& devices, int replicas) {
  std::size_t bytes = 0;
  for (const auto& device : devices) {
    for (std::int64_t first = 0, next = 10; first < replicas; first = next, next *= 10) {
      const auto count = static_cast<std::size_t>(std::min<std::int64_t>(next, replicas) - first);
      bytes += count * rpc::ListSize({{.id = fmt::format("{}::{}", device.uuid, first),
                                       .healthy = true,
                                       .numa_node = device.numa_node}});
    }
  }
  return bytes;
}

Status CheckListSize(const std::string& resource, const std::vector<OfferedDevice>& devices,
                     int replicas) {
  const auto bytes = ReplicatedListSize(devices, replicas);
  if (bytes <= rpc::kLargestList) return {};
  int fit = 0;
  int too_many = replicas;
  while (too_many - fit > 1) {
    const int middle = fit + (too_many - fit) / 2;
    (ReplicatedListSize(devices, middle) <= rpc::kLargestList ? fit : too_many) = middle;
  }
  return base::Fail(base::Invalid(
      "ListTooLong",
      fmt::format("{} replicas of each of the {} devices make a list of {} with {} bytes, and a "
                  "kubelet takes {} at most: ask for {} replicas or fewer",
                  replicas, devices.size(), resource, bytes, rpc::kLargestList, fit)));
}

Status Replicate(const api::ReplicatedResources& shared, ResourceMap& devices) {
  for (const auto& resource : shared.resources) {
    const auto found = devices.find(resource.name);
    if (found == devices.end()) continue;
    // Named by an entry before, it has replicas: those of the last entry count.
    std::vector<OfferedDevice> distinct;
    std::set<std::string> divided;
    for (auto& device : found->second) {
      if (divided.insert(device.uuid).second) distinct.push_back(std::move(device));
    }
    const auto& name = resource.rename.empty() ? resource.name : resource.rename;
    TRY(CheckListSize(name, distinct, resource.replicas));
    std::vector<OfferedDevice> replicas;
    for (const auto& device : distinct) {
      for (int n = 0; n < resource.replicas; ++n) {
        auto replica = device;
        replica.id = fmt::format("{}::{}", device.uuid, n);
        replicas.push_back(std::move(replica));
      }
    }
    devices.erase(found);
    devices[name] = std::move(replicas);
  }
  return {};
}

}  // namespace

Result<Resources> ListResources(const gpu::Inventory& inventory, gpu::MigStrategy strategy,
                                const api::Sharing& sharing, const NodeFacts& facts) {
  Resources resources;
  bool has_whole = false;
  bool has_parts = false;
  if (strategy == gpu::MigStrategy::kSingle) TRY(CheckAlike(inventory));
  for (const auto& device : inventory.devices) {
    if (gpu::IsSkippedDeviceName(device.name)) continue;
    if (const auto unfit = WhyUnfit(device); !unfit.empty() || device.uuid.empty()) {
      resources.warnings.push_back(fmt::format("GPU {} cannot be used: {}", device.index,
                                               unfit.empty() ? "no UUID" : unfit));
    }
    if (device.uuid.empty()) {
      resources.devices[std::string(api::kGpuResource)].push_back(NamelessGpu(device));
      continue;
    }
    if (strategy != gpu::MigStrategy::kNone && device.IsMigEnabled()) {
      has_parts = true;
      TRY(AddMigDevices(device, strategy, facts, resources));
    } else {
      // Whether an unreadable one is divided is not known: it fits every layout.
      has_whole = has_whole || WhyUnfit(device).empty();
      resources.devices[std::string(api::kGpuResource)].push_back(WholeGpu(device, facts));
    }
  }
  if (strategy == gpu::MigStrategy::kSingle && has_whole && has_parts) {
    return base::Fail(base::Invalid(
        "MixedMigModes",
        "some GPUs have MIG enabled and some have not; the MIG strategy single needs all GPUs "
        "divided alike"));
  }
  if (const auto* shared = sharing.replicated()) TRY(Replicate(*shared, resources.devices));
  return resources;
}

}  // namespace pitcrew::node::device_plugin
