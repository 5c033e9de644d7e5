// What can befall simulated GPUs: events, losses, ECC errors, processes.
#pragma once

#include <cstdint>
#include <string_view>

#include "simulation/state/layout.h"

namespace pitcrew::simulation {

// XIDs that the driver reports for these (NVIDIA's XID catalogue).
inline constexpr std::uint32_t kXidDoubleBitEcc = 48;
inline constexpr std::uint32_t kXidGpuFellOffTheBus = 79;

// `gpu` is a position in NodeState::gpus.
void AddEvent(NodeState& node, std::uint32_t gpu, std::uint64_t type, std::uint64_t data,
              std::uint32_t gpu_instance_id = kNoInstance,
              std::uint32_t compute_instance_id = kNoInstance);

// The GPU falls off the bus: XID 79, and every call on it says so.
void LoseGpu(NodeState& node, std::uint32_t gpu);
// Ends loss, unknown errors and slowness.
void RestoreGpu(GpuState& gpu);

// Counts errors; uncorrected ones also come as a double-bit event and XID 48.
void AddEccErrors(NodeState& node, std::uint32_t gpu, bool uncorrected, std::uint64_t count);

// A second entry of the same process on the same instance replaces the first. False when there is
// no room for one more.
bool AddProcess(GpuState& gpu, std::uint32_t pid, std::string_view name, std::uint64_t used_memory,
                bool graphics, std::uint32_t gpu_instance_id = kNoInstance,
                std::uint32_t compute_instance_id = kNoInstance);
// False when it was not there.
bool RemoveProcess(GpuState& gpu, std::uint32_t pid);

}  // namespace pitcrew::simulation
