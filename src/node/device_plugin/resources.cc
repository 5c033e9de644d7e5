#include "node/device_plugin/resources.h"

#include <fmt/format.h>

#include <set>
#include <string>
#include <utility>

#include "api/labels.h"

namespace pitcrew::node::device_plugin {
namespace {

using base::Result;
using base::Status;

std::optional<std::int64_t> NumaNode(const gpu::Device& device, const NodeFacts& facts) {
  const auto found = facts.numa_nodes.find(device.pci);
  if (found == facts.numa_nodes.end() || found->second < 0) return std::nullopt;
  return found->second;
}

OfferedDevice WholeGpu(const gpu::Device& device, const NodeFacts& facts) {
  return {.id = device.uuid,
          .uuid = device.uuid,
          .index = std::to_string(device.index),
          .paths = {fmt::format("/dev/nvidia{}", device.minor_number)},
          .numa_node = NumaNode(device, facts),
          .gpu_uuid = device.uuid,
          .gpu_instance = {},
          .compute_instance = {}};
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
      .compute_instance = part.compute_instance_id};
}

// Whether every MIG device of the node is of one kind, as `single` needs it.
Status CheckAlike(const gpu::Inventory& inventory) {
  const gpu::MigDevice* first = nullptr;
  for (const auto& device : inventory.devices) {
    if (!device.IsMigEnabled()) continue;
    if (device.mig_devices.empty()) {
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
    TRY_ASSIGN(auto offered, MigPart(device, part, facts));
    resources.devices[*resource].push_back(std::move(offered));
  }
  return {};
}

void Replicate(const api::ReplicatedResources& shared, ResourceMap& devices) {
  for (const auto& resource : shared.resources) {
    const auto found = devices.find(resource.name);
    if (found == devices.end()) continue;
    std::vector<OfferedDevice> replicas;
    std::set<std::string> divided;
    for (const auto& device : found->second) {
      // Named by an entry before, it has replicas: those of the last entry count.
      if (!divided.insert(device.uuid).second) continue;
      for (int n = 0; n < resource.replicas; ++n) {
        auto replica = device;
        replica.id = fmt::format("{}::{}", device.uuid, n);
        replicas.push_back(std::move(replica));
      }
    }
    devices.erase(found);
    devices[resource.rename.empty() ? resource.name : resource.rename] = std::move(replicas);
  }
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
    if (device.uuid.empty()) {
      resources.warnings.push_back(
          fmt::format("GPU {} is not offered: {}", device.index,
                      device.fault ? device.fault->ToString() : std::string("it has no UUID")));
      continue;
    }
    if (strategy != gpu::MigStrategy::kNone && device.IsMigEnabled()) {
      has_parts = true;
      TRY(AddMigDevices(device, strategy, facts, resources));
    } else {
      has_whole = true;
      resources.devices[std::string(api::kGpuResource)].push_back(WholeGpu(device, facts));
    }
  }
  if (strategy == gpu::MigStrategy::kSingle && has_whole && has_parts) {
    return base::Fail(base::Invalid(
        "MixedMigModes",
        "some GPUs have MIG enabled and some have not; the MIG strategy single needs all GPUs "
        "divided alike"));
  }
  if (const auto* shared = sharing.replicated()) Replicate(*shared, resources.devices);
  return resources;
}

}  // namespace pitcrew::node::device_plugin
