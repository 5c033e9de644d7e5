#include "simulation/state/incidents.h"

#include <algorithm>

#include "nvml/abi_metrics.h"

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

void AddRemappedRows(NodeState& node, std::uint32_t gpu, const RowRemapping& rows) {
  GpuState& state = node.gpus[gpu];
  if (state.remap_banks == 0) {
    state.retired_single_bit += rows.correctable;
    state.retired_double_bit += rows.uncorrectable;
  } else {
    state.remapped_correctable += rows.correctable;
    state.remapped_uncorrectable += rows.uncorrectable;
  }
  if (rows.pending) {
    state.remap_pending = 1;
    state.recovery_action = std::max(state.recovery_action, nvml::abi::kRecoveryGpuReset);
    AddEvent(node, gpu, nvml::abi::kEventXid, kXidRowRemapped);
  }
  if (rows.failure) {
    state.remap_failure = 1;
    state.recovery_action = std::max(state.recovery_action, nvml::abi::kRecoveryGpuReset);
    AddEvent(node, gpu, nvml::abi::kEventXid, kXidRowRemapFailed);
  }
}

void AddLinkErrors(NodeState& node, std::uint32_t gpu, std::uint32_t link, std::uint32_t counter,
                   std::uint64_t count) {
  if (link < kMaxNvLinks && counter < kLinkCounters) {
    node.gpus[gpu].link_errors[link][counter] += count;
  }
}

void SetLinkDown(NodeState& node, std::uint32_t gpu, std::uint32_t link, bool down) {
  GpuState& state = node.gpus[gpu];
  const std::uint32_t bit = 1u << link;
  if (down && (state.links_down & bit) == 0) {
    AddEvent(node, gpu, nvml::abi::kEventXid, kXidNvLink);
  }
  state.links_down = down ? state.links_down | bit : state.links_down & ~bit;
}

bool SetGpmValue(GpuState& gpu, std::uint32_t metric, double value) {
  auto slot = std::ranges::find(gpu.gpm_values, metric, &GpmValue::metric);
  if (slot == std::end(gpu.gpm_values)) {
    slot = std::ranges::find(gpu.gpm_values, 0u, &GpmValue::metric);
  }
  if (slot == std::end(gpu.gpm_values)) return false;
  *slot = {metric, 0, value};
  return true;
}

const double* FindGpmValue(const GpuState& gpu, std::uint32_t metric) {
  const auto found = std::ranges::find(gpu.gpm_values, metric, &GpmValue::metric);
  return found == std::end(gpu.gpm_values) ? nullptr : &found->value;
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
