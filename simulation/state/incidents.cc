#include "simulation/state/incidents.h"

#include <algorithm>

#include "nvml/abi.h"

namespace pitcrew::simulation {

void AddEvent(NodeState& node, std::uint32_t gpu, std::uint64_t type, std::uint64_t data,
              std::uint32_t gpu_instance_id, std::uint32_t compute_instance_id) {
  const std::uint64_t sequence = ++node.last_event;
  node.events[sequence % kMaxEvents] = {
      sequence, type, data, gpu, gpu_instance_id, compute_instance_id, 0};
}

void LoseGpu(NodeState& node, std::uint32_t gpu) {
  if (node.gpus[gpu].lost != 0) return;
  node.gpus[gpu].lost = 1;
  AddEvent(node, gpu, nvml::abi::kEventXid, kXidGpuFellOffTheBus);
}

void RestoreGpu(GpuState& gpu) {
  gpu.lost = 0;
  gpu.unknown_error = 0;
  gpu.slow_milliseconds = 0;
}

void AddEccErrors(NodeState& node, std::uint32_t gpu, bool uncorrected, std::uint64_t count) {
  GpuState& state = node.gpus[gpu];
  if (uncorrected) {
    state.ecc_uncorrected_volatile += count;
    state.ecc_uncorrected_aggregate += count;
    AddEvent(node, gpu, nvml::abi::kEventDoubleBitEcc, 0);
    AddEvent(node, gpu, nvml::abi::kEventXid, kXidDoubleBitEcc);
  } else {
    state.ecc_corrected_volatile += count;
    state.ecc_corrected_aggregate += count;
    AddEvent(node, gpu, nvml::abi::kEventSingleBitEcc, 0);
  }
}

bool AddProcess(GpuState& gpu, std::uint32_t pid, std::string_view name, std::uint64_t used_memory,
                bool graphics, std::uint32_t gpu_instance_id, std::uint32_t compute_instance_id) {
  auto slot = std::ranges::find_if(gpu.processes, [&](const ProcessState& process) {
    return process.pid == pid && process.gpu_instance_id == gpu_instance_id &&
           process.compute_instance_id == compute_instance_id;
  });
  if (slot == std::end(gpu.processes)) {
    slot = std::ranges::find(gpu.processes, 0u, &ProcessState::pid);
  }
  if (slot == std::end(gpu.processes)) return false;
  *slot = {};
  slot->pid = pid;
  slot->graphics = graphics ? 1 : 0;
  slot->gpu_instance_id = gpu_instance_id;
  slot->compute_instance_id = compute_instance_id;
  slot->used_memory = used_memory;
  name.copy(slot->name, sizeof(slot->name) - 1);
  return true;
}

bool RemoveProcess(GpuState& gpu, std::uint32_t pid) {
  bool removed = false;
  for (auto& process : gpu.processes) {
    if (process.pid != pid) continue;
    process = {};
    removed = true;
  }
  return removed;
}

}  // namespace pitcrew::simulation
