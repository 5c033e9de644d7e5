#include "simulation/state/readings.h"

#include <algorithm>
#include <cmath>

namespace pitcrew::simulation {
namespace {

// A slow wobble between -1 and 1, different for each GPU.
double Wobble(const GpuState& gpu, std::int64_t now, double period_seconds) {
  const double seconds = static_cast<double>(now) / 1e9;
  const double phase = gpu.pci_bus * 0.7 + gpu.minor_number * 1.3;
  return std::sin(seconds / period_seconds * 6.283185307 + phase);
}

double Load(const GpuState& gpu) { return std::min(gpu.load, 100u) / 100.0; }

std::uint32_t Round(double value, double low, double high) {
  return static_cast<std::uint32_t>(std::lround(std::clamp(value, low, high)));
}

double Mix(std::uint32_t idle, std::uint32_t full, double load) {
  return idle + (static_cast<double>(full) - idle) * load;
}

// Milliwatt at a load, without wobble.
double SteadyPower(const GpuState& gpu) {
  return Mix(gpu.power_idle, std::min(gpu.power_limit, gpu.power_max), 0.95 * Load(gpu));
}

}  // namespace

std::uint32_t GpuUtilization(const GpuState& gpu, std::int64_t now) {
  if (gpu.load == 0) return 0;
  return Round(100 * Load(gpu) + 3 * Wobble(gpu, now, 17), 0, 100);
}

std::uint32_t MemoryUtilization(const GpuState& gpu, std::int64_t now) {
  if (gpu.load == 0) return 0;
  return Round(60 * Load(gpu) + 2 * Wobble(gpu, now, 23), 0, 100);
}

std::uint32_t Temperature(const GpuState& gpu, std::int64_t now) {
  const double steady = Mix(gpu.temperature_idle, gpu.temperature_full, Load(gpu));
  return Round(steady + 1.4 * Wobble(gpu, now, 61), 0, gpu.temperature_shutdown);
}

std::uint32_t PowerUsage(const GpuState& gpu, std::int64_t now) {
  const double steady = SteadyPower(gpu);
  return Round(steady * (1 + 0.02 * Wobble(gpu, now, 11)), 1000, gpu.power_max);
}

std::uint32_t SmClock(const GpuState& gpu, std::int64_t now) {
  if (gpu.load == 0) return gpu.sm_clock_idle;
  // Clocks move in steps of 15 MHz, a little below the maximum when the GPU is hot.
  const double clock = gpu.sm_clock_max * (1 - 0.06 * Load(gpu) + 0.01 * Wobble(gpu, now, 13));
  return std::min(gpu.sm_clock_max, Round(clock / 15, 1, 1e6) * 15);
}

std::uint32_t MemoryClock(const GpuState& gpu) {
  return gpu.load == 0 ? gpu.memory_clock_idle : gpu.memory_clock_max;
}

std::uint32_t PerformanceState(const GpuState& gpu) {
  // Boards whose memory clock never falls stay in P0 (data centre GPUs with HBM).
  return gpu.load != 0 || gpu.memory_clock_idle == gpu.memory_clock_max ? 0 : 8;
}

std::uint64_t Energy(const GpuState& gpu, std::int64_t now) {
  const double seconds =
      static_cast<double>(std::max<std::int64_t>(0, now - gpu.energy_since)) / 1e9;
  return gpu.energy_until + static_cast<std::uint64_t>(SteadyPower(gpu) * seconds);
}

std::uint64_t ProcessMemory(const GpuState& gpu) {
  std::uint64_t used = 0;
  for (const auto& process : gpu.processes) {
    if (process.pid != 0) used += process.used_memory;
  }
  return std::min(used, gpu.memory_total - gpu.memory_reserved);
}

void SetLoad(GpuState& gpu, std::uint32_t percent, std::int64_t now) {
  gpu.energy_until = Energy(gpu, now);
  gpu.energy_since = now;
  gpu.load = std::min(percent, 100u);
}

}  // namespace pitcrew::simulation
