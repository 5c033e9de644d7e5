// What can befall simulated GPUs: events, losses, ECC errors, worn memory, links, processes; and
// what ends it.
#pragma once

#include <cstdint>
#include <string_view>

#include "simulation/state/layout.h"

namespace pitcrew::simulation {

// XIDs that the driver reports for these (NVIDIA's XID catalogue).
inline constexpr std::uint32_t kXidDoubleBitEcc = 48;
inline constexpr std::uint32_t kXidRowRemapped = 63;
inline constexpr std::uint32_t kXidRowRemapFailed = 64;
inline constexpr std::uint32_t kXidNvLink = 74;
inline constexpr std::uint32_t kXidGpuFellOffTheBus = 79;

// `gpu` is a position in NodeState::gpus.
void AddEvent(NodeState& node, std::uint32_t gpu, std::uint64_t type, std::uint64_t data,
              std::uint32_t gpu_instance_id = kNoInstance,
              std::uint32_t compute_instance_id = kNoInstance);

// The GPU falls off the bus: XID 79, and every call on it says so.
void LoseGpu(NodeState& node, std::uint32_t gpu);
// Ends loss, unknown errors, slowness and hanging. What only a reset ends stays.
void RestoreGpu(GpuState& gpu);

// Counts errors; uncorrected ones also come as a double-bit event and XID 48.
void AddEccErrors(NodeState& node, std::uint32_t gpu, bool uncorrected, std::uint64_t count);

// Rows that the memory gave up. On boards without a row remapper pages are retired instead.
struct RowRemapping {
  std::uint32_t correctable = 0;
  std::uint32_t uncorrectable = 0;
  // The remapping takes effect with the next reset: XID 63.
  bool pending = false;
  // A bank has no rows left: XID 64. Stays over resets.
  bool failure = false;
};
void AddRemappedRows(NodeState& node, std::uint32_t gpu, const RowRemapping& rows);

// Counts errors of a link (nvmlNvLinkErrorCounter_t); `down`: the link goes down, XID 74.
void AddLinkErrors(NodeState& node, std::uint32_t gpu, std::uint32_t link, std::uint32_t counter,
                   std::uint64_t count);
void SetLinkDown(NodeState& node, std::uint32_t gpu, std::uint32_t link, bool down);

// Gives a GPM metric a value in place of what follows from the load. False when there is no room
// for one more.
bool SetGpmValue(GpuState& gpu, std::uint32_t metric, double value);
// Null when the metric has none.
[[nodiscard]] const double* FindGpmValue(const GpuState& gpu, std::uint32_t metric);

// A second entry of the same process on the same instance replaces the first. False when there is
// no room for one more.
bool AddProcess(GpuState& gpu, std::uint32_t pid, std::string_view name, std::uint64_t used_memory,
                bool graphics, std::uint32_t gpu_instance_id = kNoInstance,
                std::uint32_t compute_instance_id = kNoInstance);
// False when it was not there.
bool RemoveProcess(GpuState& gpu, std::uint32_t pid);

}  // namespace pitcrew::simulation
