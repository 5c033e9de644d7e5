// The rules of MIG on one simulated GPU (mig-manager.md sections 5.1, 5.3, 12.2): mode changes,
// instances created and destroyed under placements, capacities and use. Return codes are NVML's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gpu/mig_geometry.h"
#include "nvml/abi.h"
#include "simulation/state/layout.h"

namespace pitcrew::simulation {

using nvml::abi::Return;

// Null when there is none.
[[nodiscard]] const GpuProfile* FindProfileById(const GpuState& gpu, std::uint32_t id);
[[nodiscard]] const GpuProfile* FindProfileByIndex(const GpuState& gpu, std::uint32_t index);
[[nodiscard]] const ComputeProfile* FindComputeProfileById(const GpuProfile& profile,
                                                           std::uint32_t id);
[[nodiscard]] const ComputeProfile* FindComputeProfileByIndex(const GpuProfile& profile,
                                                              std::uint32_t index);
[[nodiscard]] const GpuInstanceState* FindInstance(const GpuState& gpu, std::uint64_t serial);
[[nodiscard]] const GpuInstanceState* FindInstanceById(const GpuState& gpu, std::uint32_t id);
[[nodiscard]] const ComputeInstanceState* FindComputeInstance(const GpuInstanceState& instance,
                                                              std::uint64_t serial);
[[nodiscard]] const ComputeInstanceState* FindComputeInstanceById(const GpuInstanceState& instance,
                                                                  std::uint32_t id);
[[nodiscard]] const GpuProfile& ProfileOf(const GpuState& gpu, const GpuInstanceState& instance);
[[nodiscard]] const ComputeProfile& ProfileOf(const GpuProfile& profile,
                                              const ComputeInstanceState& instance);

// Memory slices of the whole GPU; 0 without MIG.
[[nodiscard]] std::uint32_t MemorySlices(const GpuState& gpu);

// Placements that the profile could ever take, and how many more instances of it fit now.
[[nodiscard]] std::vector<gpu::MigPlacement> PossiblePlacements(const GpuProfile& profile);
[[nodiscard]] unsigned RemainingCapacity(const GpuState& gpu, const GpuProfile& profile);
[[nodiscard]] unsigned RemainingCapacity(const GpuProfile& profile,
                                         const GpuInstanceState& instance,
                                         const ComputeProfile& compute_profile);

// Asks for the mode. On an idle GPU it takes effect at once (`activation` success); with processes
// on it the change stays pending (`activation` in use) until the next reset. Enabling keeps, and
// disabling needs, no instances: kInUse otherwise.
Return SetMigMode(GpuState& gpu, bool enabled, Return& activation);
// What a GPU reset does: pending modes and row remappings take effect, counters since the last
// reset are zero, no recovery action is needed any more; kInUse while processes run.
Return ResetGpu(GpuState& gpu);

// kNotSupported without MIG mode, kInvalidArgument for an unknown profile or placement,
// kInsufficientResources when it does not fit. `serial` receives the new instance's.
Return CreateGpuInstance(NodeState& node, GpuState& gpu, std::uint32_t profile_id,
                         std::optional<gpu::MigPlacement> placement, std::uint64_t& serial);
// kInUse while it has compute instances; kNotFound when it is gone.
Return DestroyGpuInstance(GpuState& gpu, std::uint64_t serial);

Return CreateComputeInstance(NodeState& node, GpuState& gpu, std::uint64_t instance_serial,
                             std::uint32_t profile_id, std::optional<gpu::MigPlacement> placement,
                             std::uint64_t& serial);
// kInUse while processes run on it; kNotFound when it is gone.
Return DestroyComputeInstance(GpuState& gpu, std::uint64_t instance_serial, std::uint64_t serial);

// A MIG device is a compute instance.
struct MigDeviceRef {
  std::uint64_t instance_serial = 0;
  std::uint64_t compute_serial = 0;
  std::uint32_t instance_id = 0;
  std::uint32_t compute_id = 0;
  bool operator==(const MigDeviceRef&) const = default;
};
// By GPU instance id, then compute instance id: the order of NVML's MIG indices.
[[nodiscard]] std::vector<MigDeviceRef> ListMigDevices(const GpuState& gpu);
// "MIG-..."; the same for the same place on the same GPU.
[[nodiscard]] std::string MigUuid(const GpuState& gpu, const GpuInstanceState& instance,
                                  const ComputeInstanceState& compute_instance);

}  // namespace pitcrew::simulation
