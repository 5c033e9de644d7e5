#include "node/mps/plan.h"

#include <fmt/format.h>

#include "api/labels.h"

namespace pitcrew::node::mps {
namespace {

// Whole GPUs of the node that can be shared.
base::Result<std::vector<SharedGpu>> WholeGpus(const gpu::Inventory& inventory, int replicas,
                                               Plan& plan) {
  std::vector<SharedGpu> gpus;
  for (const auto& device : inventory.devices) {
    if (gpu::IsSkippedDeviceName(device.name)) continue;
    if (device.fault || device.uuid.empty()) {
      plan.warnings.push_back(
          fmt::format("GPU {} is not shared until the next reload: {}", device.index,
                      device.fault ? device.fault->ToString() : std::string("it has no UUID")));
      continue;
    }
    if (device.IsMigEnabled()) {
      return base::Fail(base::Invalid(
          "MpsWithMig", fmt::format("sharing using MPS is not supported for MIG devices: GPU {} "
                                    "has MIG enabled; share it by time-slicing, or switch MIG off",
                                    device.index)));
    }
    if (const int most = MaxClients(device.compute_capability); replicas > most) {
      return base::Fail(base::Invalid(
          "TooManyReplicas",
          fmt::format("GPU {} ({}) cannot be shared that often by MPS: maximum allowed replicas "
                      "exceeded: {} > {}",
                      device.index, device.name, replicas, most)));
    }
    const auto* memory = device.memory.value();
    gpus.push_back({device.uuid, device.index, memory != nullptr ? memory->total : 0});
    if (memory == nullptr) {
      plan.warnings.push_back(
          fmt::format("the memory of GPU {} is unknown: what its clients may take is not limited",
                      device.index));
    }
  }
  return gpus;
}

}  // namespace

int MaxClients(const gpu::ComputeCapability& capability) {
  return capability >= gpu::ComputeCapability{7, 5} ? 48 : 16;
}

base::Result<Plan> MakePlan(const gpu::Inventory& inventory, const api::Sharing& sharing) {
  Plan plan;
  if (sharing.strategy() != api::SharingStrategy::kMps) return plan;
  for (const auto& shared : sharing.mps->resources) {
    // Every other name is one of MIG devices, which MPS does not share.
    if (shared.name != api::kGpuResource) {
      plan.warnings.push_back(fmt::format("{} is not shared: MPS shares whole GPUs ({})",
                                          shared.name, api::kGpuResource));
      continue;
    }
    TRY_ASSIGN(auto gpus, WholeGpus(inventory, shared.replicas, plan));
    if (gpus.empty()) continue;
    plan.resources.push_back({.name = shared.rename.empty() ? shared.name : shared.rename,
                              .replicas = shared.replicas,
                              .gpus = std::move(gpus)});
  }
  return plan;
}

std::vector<std::string> LimitCommands(const SharedResource& resource) {
  std::vector<std::string> commands;
  const auto replicas = static_cast<std::uint64_t>(resource.replicas);
  for (const auto& gpu : resource.gpus) {
    if (gpu.memory_bytes == 0) continue;
    commands.push_back(fmt::format("set_default_device_pinned_mem_limit {} {}M", gpu.index,
                                   gpu.memory_bytes / replicas / 1024 / 1024));
  }
  commands.push_back(
      fmt::format("set_default_active_thread_percentage {}", 100 / resource.replicas));
  return commands;
}

}  // namespace pitcrew::node::mps
