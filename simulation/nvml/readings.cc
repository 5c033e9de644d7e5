// What moves over time, limits, modes, ECC, processes.
#include <algorithm>
#include <array>
#include <ctime>

#include "simulation/nvml/architectures.h"
#include "simulation/nvml/session.h"
#include "simulation/state/mig.h"
#include "simulation/state/readings.h"

using namespace pitcrew::nvml::abi;
using namespace pitcrew::simulation;
using namespace pitcrew::simulation::library;

namespace {

// Resolves a full GPU (MIG devices have no readings of their own) and stores what `read` says.
template <class T, class Read>
Return ReadGpu(Device device, T* value, Read read) {
  Target target;
  NVML_TRY(ResolveDevice(device, target));
  NVML_REQUIRE(value != nullptr);
  if (target.compute != nullptr) return kNotSupported;
  *value = static_cast<T>(read(*target.gpu));
  return kSuccess;
}

template <class Change>
Return ChangeGpu(Device device, Change change) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  const auto status = target.file->Update([&](NodeState& node) {
    change(node.gpus[target.handle->gpu]);
    return true;
  });
  if (status) return kSuccess;
  return status.error().code == pitcrew::base::Code::kDenied ? kNoPermission : kUnknown;
}

// Total, reserved and used bytes of a GPU or MIG device.
struct MemoryUse {
  unsigned long long total;
  unsigned long long reserved;
  unsigned long long used;
};

MemoryUse UseOf(const Target& target) {
  const GpuState& gpu = *target.gpu;
  if (target.compute == nullptr) {
    return {gpu.memory_total, gpu.memory_reserved, ProcessMemory(gpu)};
  }
  // Compute instances share the memory of their GPU instance.
  MemoryUse use{ProfileOf(gpu, *target.instance).memory_mib << 20, 0, 0};
  for (const auto& process : gpu.processes) {
    if (process.pid != 0 && process.gpu_instance_id == target.instance->id) {
      use.used += process.used_memory;
    }
  }
  use.used = std::min(use.used, use.total);
  return use;
}

template <class Info>
Return ListProcesses(Device device, bool graphics, unsigned* count, Info* infos) {
  Target target;
  NVML_TRY(ResolveDevice(device, target));
  NVML_REQUIRE(count != nullptr);
  unsigned found = 0;
  const unsigned room = *count;
  for (const auto& process : target.gpu->processes) {
    if (process.pid == 0 || (process.graphics != 0) != graphics) continue;
    if (target.compute != nullptr && (process.gpu_instance_id != target.instance->id ||
                                      process.compute_instance_id != target.compute->id)) {
      continue;
    }
    if (found < room && infos != nullptr) {
      Info info{};
      info.pid = process.pid;
      info.used_gpu_memory = process.used_memory;
      if constexpr (requires { info.gpu_instance_id; }) {
        info.gpu_instance_id = process.gpu_instance_id;
        info.compute_instance_id = process.compute_instance_id;
      }
      infos[found] = info;
    }
    ++found;
  }
  *count = found;
  return found > room ? kInsufficientSize : kSuccess;
}

}  // namespace

NVML_API Return nvmlDeviceGetMemoryInfo(Device device, Memory* memory) {
  Target target;
  NVML_TRY(ResolveDevice(device, target));
  NVML_REQUIRE(memory != nullptr);
  const MemoryUse use = UseOf(target);
  // The first version of the structure counts the reserved memory as used.
  const auto used = use.used + use.reserved;
  *memory = {use.total, use.total - used, used};
  return kSuccess;
}

NVML_API Return nvmlDeviceGetMemoryInfo_v2(Device device, MemoryV2* memory) {
  Target target;
  NVML_TRY(ResolveDevice(device, target));
  NVML_REQUIRE(memory != nullptr);
  if (memory->version != (sizeof(MemoryV2) | 2u << 24)) return kArgumentVersionMismatch;
  const MemoryUse use = UseOf(target);
  *memory = {memory->version, use.total, use.reserved, use.total - use.used - use.reserved,
             use.used};
  return kSuccess;
}

// A MIG device has the share of its memory slices, less one mebibyte (nvidia-smi: 1g.10gb of an
// H100 has 16383 MiB of 131072).
NVML_API Return nvmlDeviceGetBAR1MemoryInfo(Device device, Bar1Memory* memory) {
  Target target;
  NVML_TRY(ResolveDevice(device, target));
  NVML_REQUIRE(memory != nullptr);
  constexpr unsigned long long kMib = 1ull << 20;
  if (target.instance != nullptr) {
    const auto total =
        target.gpu->bar1_total / MemorySlices(*target.gpu) * target.instance->size - kMib;
    *memory = {total, total, 0};
    return kSuccess;
  }
  const unsigned long long used = std::min<unsigned long long>(target.gpu->bar1_total, kMib);
  *memory = {target.gpu->bar1_total, target.gpu->bar1_total - used, used};
  return kSuccess;
}

NVML_API Return nvmlDeviceGetUtilizationRates(Device device, Utilization* utilization) {
  Target target;
  NVML_TRY(ResolveDevice(device, target));
  NVML_REQUIRE(utilization != nullptr);
  // Not measured in MIG mode, as on real GPUs.
  if (target.compute != nullptr || target.gpu->mig_current != 0) return kNotSupported;
  const auto now = RealtimeNow();
  *utilization = {GpuUtilization(*target.gpu, now), MemoryUtilization(*target.gpu, now)};
  return kSuccess;
}

NVML_API Return nvmlDeviceGetTemperature(Device device, unsigned sensor, unsigned* celsius) {
  NVML_REQUIRE(sensor == 0);
  return ReadGpu(device, celsius,
                 [](const GpuState& gpu) { return Temperature(gpu, RealtimeNow()); });
}

// Shutdown, slowdown, memory and GPU at their highest in operation; the others are settings of
// consumer boards.
NVML_API Return nvmlDeviceGetTemperatureThreshold(Device device, unsigned threshold,
                                                  unsigned* celsius) {
  NVML_REQUIRE(threshold <= 7);
  Target target;
  NVML_TRY(ResolveDevice(device, target));
  NVML_REQUIRE(celsius != nullptr);
  const GpuState& gpu = *target.gpu;
  const std::array<std::uint32_t, 4> thresholds = {
      gpu.temperature_shutdown, gpu.temperature_slowdown, gpu.memory_temperature_max,
      gpu.temperature_max_operating};
  if (target.compute != nullptr || threshold >= thresholds.size() || thresholds[threshold] == 0) {
    return kNotSupported;
  }
  *celsius = thresholds[threshold];
  return kSuccess;
}

NVML_API Return nvmlDeviceGetFanSpeed(Device device, unsigned* percent) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  NVML_REQUIRE(percent != nullptr);
  if (target.gpu->fan == 0) return kNotSupported;
  *percent = target.gpu->fan == 1 ? 0 : 30 + target.gpu->load / 2;
  return kSuccess;
}

// By fan; a board without fans has no first one either.
NVML_API Return nvmlDeviceGetFanSpeed_v2(Device device, unsigned fan, unsigned* percent) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  NVML_REQUIRE(target.gpu->fan != 0 && fan == 0);
  return nvmlDeviceGetFanSpeed(device, percent);
}
NVML_API Return nvmlDeviceGetFanSpeedRPM(Device device, void*) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  NVML_REQUIRE(target.gpu->fan != 0);
  return kNotSupported;
}
NVML_API Return nvmlDeviceGetMinMaxFanSpeed(Device device, unsigned*, unsigned*) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  NVML_REQUIRE(target.gpu->fan != 0);
  return kNotSupported;
}

NVML_API Return nvmlDeviceGetNumFans(Device device, unsigned* count) {
  return ReadGpu(device, count, [](const GpuState& gpu) { return gpu.fan != 0 ? 1 : 0; });
}

NVML_API Return nvmlDeviceGetPowerUsage(Device device, unsigned* milliwatt) {
  return ReadGpu(device, milliwatt,
                 [](const GpuState& gpu) { return PowerUsage(gpu, RealtimeNow()); });
}
NVML_API Return nvmlDeviceGetTotalEnergyConsumption(Device device, unsigned long long* millijoule) {
  return ReadGpu(device, millijoule,
                 [](const GpuState& gpu) { return Energy(gpu, RealtimeNow()); });
}
NVML_API Return nvmlDeviceGetPowerManagementLimit(Device device, unsigned* milliwatt) {
  return ReadGpu(device, milliwatt, [](const GpuState& gpu) { return gpu.power_limit; });
}
NVML_API Return nvmlDeviceGetEnforcedPowerLimit(Device device, unsigned* milliwatt) {
  return ReadGpu(device, milliwatt, [](const GpuState& gpu) { return gpu.power_limit; });
}
NVML_API Return nvmlDeviceGetPowerManagementDefaultLimit(Device device, unsigned* milliwatt) {
  return ReadGpu(device, milliwatt, [](const GpuState& gpu) { return gpu.power_max; });
}
NVML_API Return nvmlDeviceGetPowerManagementMode(Device device, unsigned* mode) {
  return ReadGpu(device, mode, [](const GpuState&) { return kFeatureEnabled; });
}

NVML_API Return nvmlDeviceGetPowerManagementLimitConstraints(Device device, unsigned* low,
                                                             unsigned* high) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  NVML_REQUIRE(low != nullptr && high != nullptr);
  *low = target.gpu->power_min;
  *high = target.gpu->power_max;
  return kSuccess;
}

NVML_API Return nvmlDeviceSetPowerManagementLimit(Device device, unsigned milliwatt) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  NVML_REQUIRE(milliwatt >= target.gpu->power_min && milliwatt <= target.gpu->power_max);
  return ChangeGpu(device, [&](GpuState& gpu) {
    CountUntil(gpu, RealtimeNow());
    gpu.power_limit = milliwatt;
  });
}

NVML_API Return nvmlDeviceGetClockInfo(Device device, unsigned type, unsigned* mhz) {
  NVML_REQUIRE(type <= kClockVideo);
  return ReadGpu(device, mhz, [&](const GpuState& gpu) {
    if (type == kClockMemory) return MemoryClock(gpu);
    const auto now = RealtimeNow();
    return type == kClockVideo ? VideoClock(gpu, now) : SmClock(gpu, now);
  });
}
NVML_API Return nvmlDeviceGetMaxClockInfo(Device device, unsigned type, unsigned* mhz) {
  NVML_REQUIRE(type <= kClockVideo);
  return ReadGpu(device, mhz, [&](const GpuState& gpu) {
    if (type == kClockMemory) return gpu.memory_clock_max;
    return type == kClockVideo ? gpu.video_clock_max : gpu.sm_clock_max;
  });
}
// There is none of the video engines.
NVML_API Return nvmlDeviceGetApplicationsClock(Device device, unsigned type, unsigned* mhz) {
  NVML_TRY(nvmlDeviceGetMaxClockInfo(device, type, mhz));
  return type == kClockVideo ? kNotSupported : kSuccess;
}
NVML_API Return nvmlDeviceGetDefaultApplicationsClock(Device device, unsigned type, unsigned* mhz) {
  return nvmlDeviceGetApplicationsClock(device, type, mhz);
}

NVML_API Return nvmlDeviceGetPerformanceState(Device device, unsigned* state) {
  return ReadGpu(device, state, [](const GpuState& gpu) { return PerformanceState(gpu); });
}
NVML_API Return nvmlDeviceGetPowerState(Device device, unsigned* state) {
  return nvmlDeviceGetPerformanceState(device, state);
}

NVML_API Return nvmlDeviceGetPersistenceMode(Device device, unsigned* mode) {
  return ReadGpu(device, mode, [](const GpuState& gpu) { return gpu.persistence_mode; });
}
NVML_API Return nvmlDeviceSetPersistenceMode(Device device, unsigned mode) {
  NVML_REQUIRE(mode <= 1);
  return ChangeGpu(device, [&](GpuState& gpu) { gpu.persistence_mode = mode; });
}
NVML_API Return nvmlDeviceGetComputeMode(Device device, unsigned* mode) {
  return ReadGpu(device, mode, [](const GpuState& gpu) { return gpu.compute_mode; });
}
NVML_API Return nvmlDeviceSetComputeMode(Device device, unsigned mode) {
  NVML_REQUIRE(mode == 0 || mode == 2 || mode == 3);
  return ChangeGpu(device, [&](GpuState& gpu) { gpu.compute_mode = mode; });
}
// An H200 without any connector says that a display is attached.
NVML_API Return nvmlDeviceGetDisplayMode(Device device, unsigned* mode) {
  return ReadGpu(device, mode, [](const GpuState& gpu) {
    return gpu.architecture >= kHopper ? kFeatureEnabled : kFeatureDisabled;
  });
}
NVML_API Return nvmlDeviceGetDisplayActive(Device device, unsigned* active) {
  return ReadGpu(device, active, [](const GpuState&) { return kFeatureDisabled; });
}
NVML_API Return nvmlDeviceGetVirtualizationMode(Device device, unsigned* mode) {
  return ReadGpu(device, mode, [](const GpuState& gpu) { return gpu.virtualization_mode; });
}

NVML_API Return nvmlDeviceGetMaxPcieLinkGeneration(Device device, unsigned* generation) {
  return ReadGpu(device, generation, [](const GpuState& gpu) { return gpu.pcie_generation; });
}
NVML_API Return nvmlDeviceGetGpuMaxPcieLinkGeneration(Device device, unsigned* generation) {
  return nvmlDeviceGetMaxPcieLinkGeneration(device, generation);
}
NVML_API Return nvmlDeviceGetCurrPcieLinkGeneration(Device device, unsigned* generation) {
  return ReadGpu(device, generation, [](const GpuState& gpu) { return PcieGeneration(gpu); });
}
NVML_API Return nvmlDeviceGetMaxPcieLinkWidth(Device device, unsigned* width) {
  return ReadGpu(device, width, [](const GpuState& gpu) { return gpu.pcie_width; });
}
NVML_API Return nvmlDeviceGetCurrPcieLinkWidth(Device device, unsigned* width) {
  return ReadGpu(device, width, [](const GpuState& gpu) { return PcieWidth(gpu); });
}
NVML_API Return nvmlDeviceGetPcieReplayCounter(Device device, unsigned* count) {
  return ReadGpu(device, count, [](const GpuState& gpu) { return gpu.pcie_replays; });
}

NVML_API Return nvmlDeviceGetEccMode(Device device, unsigned* current, unsigned* pending) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  NVML_REQUIRE(current != nullptr && pending != nullptr);
  if (target.gpu->ecc_supported == 0) return kNotSupported;
  *current = target.gpu->ecc_current;
  *pending = target.gpu->ecc_pending;
  return kSuccess;
}

NVML_API Return nvmlDeviceSetEccMode(Device device, unsigned mode) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  NVML_REQUIRE(mode <= 1);
  if (target.gpu->ecc_supported == 0) return kNotSupported;
  return ChangeGpu(device, [&](GpuState& gpu) { gpu.ecc_pending = mode; });
}

NVML_API Return nvmlDeviceGetTotalEccErrors(Device device, unsigned type, unsigned counter,
                                            unsigned long long* count) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  NVML_REQUIRE(count != nullptr && type <= 1 && counter <= 1);
  const GpuState& gpu = *target.gpu;
  if (gpu.ecc_supported == 0 || gpu.ecc_current == 0) return kNotSupported;
  const bool uncorrected = type == 1;
  if (counter == 0) {
    *count = uncorrected ? gpu.ecc_uncorrected_volatile : gpu.ecc_corrected_volatile;
  } else {
    *count = uncorrected ? gpu.ecc_uncorrected_aggregate : gpu.ecc_corrected_aggregate;
  }
  return kSuccess;
}

// Every simulated error lies in device memory (location 2). Hopper and later tell that and the
// SRAM (location 7) apart, and nothing finer.
NVML_API Return nvmlDeviceGetMemoryErrorCounter(Device device, unsigned type, unsigned counter,
                                                unsigned location, unsigned long long* count) {
  NVML_TRY(nvmlDeviceGetTotalEccErrors(device, type, counter, count));
  constexpr unsigned kDeviceMemory = 2;
  constexpr unsigned kSram = 7;
  NVML_REQUIRE(location <= kSram);
  if (location != kDeviceMemory) *count = 0;
  if (location == kDeviceMemory || location == kSram) return kSuccess;
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  return target.gpu->architecture >= kHopper ? kNotSupported : kSuccess;
}

NVML_API Return nvmlDeviceGetDetailedEccErrors(Device device, unsigned type, unsigned counter,
                                               EccErrorCounts* counts) {
  NVML_REQUIRE(counts != nullptr);
  *counts = {};
  return nvmlDeviceGetTotalEccErrors(device, type, counter, &counts->device_memory);
}

NVML_API Return nvmlDeviceClearEccErrorCounts(Device device, unsigned counter) {
  NVML_REQUIRE(counter <= 1);
  return ChangeGpu(device, [&](GpuState& gpu) {
    (counter == 0 ? gpu.ecc_corrected_volatile : gpu.ecc_corrected_aggregate) = 0;
    (counter == 0 ? gpu.ecc_uncorrected_volatile : gpu.ecc_uncorrected_aggregate) = 0;
  });
}

NVML_API Return nvmlDeviceGetComputeRunningProcesses_v3(Device device, unsigned* count,
                                                        ProcessInfo* infos) {
  return ListProcesses(device, false, count, infos);
}
NVML_API Return nvmlDeviceGetComputeRunningProcesses_v2(Device device, unsigned* count,
                                                        ProcessInfo* infos) {
  return ListProcesses(device, false, count, infos);
}
NVML_API Return nvmlDeviceGetComputeRunningProcesses(Device device, unsigned* count,
                                                     ProcessInfoV1* infos) {
  return ListProcesses(device, false, count, infos);
}
NVML_API Return nvmlDeviceGetGraphicsRunningProcesses_v3(Device device, unsigned* count,
                                                         ProcessInfo* infos) {
  return ListProcesses(device, true, count, infos);
}
NVML_API Return nvmlDeviceGetGraphicsRunningProcesses_v2(Device device, unsigned* count,
                                                         ProcessInfo* infos) {
  return ListProcesses(device, true, count, infos);
}
NVML_API Return nvmlDeviceGetGraphicsRunningProcesses(Device device, unsigned* count,
                                                      ProcessInfoV1* infos) {
  return ListProcesses(device, true, count, infos);
}

// Clients of MPS are not told apart from other processes.
NVML_API Return nvmlDeviceGetMPSComputeRunningProcesses_v3(Device device, unsigned* count,
                                                           ProcessInfo*) {
  Target target;
  NVML_TRY(ResolveDevice(device, target));
  NVML_REQUIRE(count != nullptr);
  *count = 0;
  return kSuccess;
}
NVML_API Return nvmlDeviceGetMPSComputeRunningProcesses_v2(Device device, unsigned* count,
                                                           ProcessInfo* infos) {
  return nvmlDeviceGetMPSComputeRunningProcesses_v3(device, count, infos);
}
NVML_API Return nvmlDeviceGetMPSComputeRunningProcesses(Device device, unsigned* count,
                                                        ProcessInfoV1*) {
  return nvmlDeviceGetMPSComputeRunningProcesses_v3(device, count, nullptr);
}

NVML_API Return nvmlDeviceGetProcessUtilization(Device device, ProcessUtilizationSample* samples,
                                                unsigned* count, unsigned long long last_seen) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  NVML_REQUIRE(count != nullptr);
  const auto now = RealtimeNow();
  const auto stamp = static_cast<unsigned long long>(now / 1000);
  unsigned running = 0;
  for (const auto& process : target.gpu->processes) running += process.pid != 0 ? 1 : 0;
  if (running == 0 || stamp <= last_seen) {
    *count = 0;
    return kNotFound;
  }
  const unsigned room = *count;
  *count = running;
  if (samples == nullptr || room < running) return kInsufficientSize;
  const unsigned share = GpuUtilization(*target.gpu, now) / running;
  const unsigned memory = MemoryUtilization(*target.gpu, now) / running;
  for (const auto& process : target.gpu->processes) {
    if (process.pid != 0) *samples++ = {process.pid, stamp, share, memory, 0, 0};
  }
  return kSuccess;
}
