#include "simulation/state/readings.h"

#include <algorithm>
#include <cmath>

#include "nvml/abi_metrics.h"

namespace pitcrew::simulation {

using namespace nvml::abi;

namespace {

constexpr std::uint64_t kThermalReasons = kClocksSwThermalSlowdown | kClocksHwThermalSlowdown;
constexpr std::uint64_t kHardwareReasons =
    kClocksHwSlowdown | kClocksHwThermalSlowdown | kClocksHwPowerBrakeSlowdown;

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

double SecondsSince(const GpuState& gpu, std::int64_t now) {
  return static_cast<double>(std::max<std::int64_t>(0, now - gpu.energy_since)) / 1e9;
}

// Bytes a second that the GPU's PCIe link carries at full load: two fifths of what it could.
double PcieFullLoad(const GpuState& gpu) {
  // Generation 1 carries 250 MB/s a lane; each one doubles it.
  return 0.4 * 250e6 * std::exp2(PcieGeneration(gpu) - 1.0) * PcieWidth(gpu);
}
// What an idle GPU and its driver say to each other (nvidia-smi shows some 500 KB/s).
constexpr double kPcieIdle = 500e3;

double PcieShare(Direction direction) { return direction == Direction::kSent ? 0.6 : 1.0; }

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
  // Clocks are held down for heat when there is heat.
  if ((gpu.throttle.reasons & kThermalReasons) != 0) {
    return std::min(gpu.temperature_slowdown + 1, gpu.temperature_shutdown);
  }
  const double steady = Mix(gpu.temperature_idle, gpu.temperature_full, Load(gpu));
  return Round(steady + 1.4 * Wobble(gpu, now, 61), 0, gpu.temperature_shutdown);
}

std::uint32_t MemoryTemperature(const GpuState& gpu, std::int64_t now) {
  // Some degrees above the GPU, as nvidia-smi shows it on HBM boards.
  return std::min(Temperature(gpu, now) + 6, gpu.memory_temperature_max);
}

std::uint32_t PowerUsage(const GpuState& gpu, std::int64_t now) {
  const double steady = SteadyPower(gpu);
  return Round(steady * (1 + 0.02 * Wobble(gpu, now, 11)), 1000, gpu.power_max);
}

std::uint32_t SmClock(const GpuState& gpu, std::int64_t now) {
  if (gpu.load == 0) return gpu.sm_clock_idle;
  // Clocks move in steps of 15 MHz, a little below the maximum when the GPU is hot.
  double clock = gpu.sm_clock_max * (1 - 0.06 * Load(gpu) + 0.01 * Wobble(gpu, now, 13));
  // Hardware slowdowns halve the clock or more; software takes what is needed.
  if ((gpu.throttle.reasons & kHardwareReasons) != 0) {
    clock /= 2;
  } else if ((gpu.throttle.reasons & ~(kClocksGpuIdle | kClocksDisplaySetting)) != 0) {
    clock *= 0.8;
  }
  return std::min(gpu.sm_clock_max, Round(clock / 15, 1, 1e6) * 15);
}

std::uint32_t VideoClock(const GpuState& gpu, std::int64_t now) {
  return std::max(gpu.video_clock_idle, std::min(SmClock(gpu, now), gpu.video_clock_max));
}

std::uint32_t MemoryClock(const GpuState& gpu) {
  return gpu.load == 0 ? gpu.memory_clock_idle : gpu.memory_clock_max;
}

std::uint32_t PerformanceState(const GpuState& gpu) {
  // Boards whose memory clock never falls stay in P0 (data centre GPUs with HBM).
  return gpu.load != 0 || gpu.memory_clock_idle == gpu.memory_clock_max ? 0 : 8;
}

std::uint64_t Energy(const GpuState& gpu, std::int64_t now) {
  return gpu.energy_until + static_cast<std::uint64_t>(SteadyPower(gpu) * SecondsSince(gpu, now));
}

double BusySeconds(const GpuState& gpu, std::int64_t now) {
  return static_cast<double>(gpu.busy_until) / 1e9 + Load(gpu) * SecondsSince(gpu, now);
}

std::uint64_t IdleNanoseconds(const GpuState& gpu, std::int64_t now) {
  if (gpu.load != 0) return gpu.idle_until;
  return gpu.idle_until +
         static_cast<std::uint64_t>(std::max<std::int64_t>(0, now - gpu.energy_since));
}

std::uint64_t PcieBytes(const GpuState& gpu, Direction direction, std::int64_t now) {
  return static_cast<std::uint64_t>(BusySeconds(gpu, now) * PcieFullLoad(gpu) *
                                    PcieShare(direction));
}

std::uint64_t PcieBytesPerSecond(const GpuState& gpu, Direction direction, std::int64_t now) {
  const double load = Load(gpu) * (1 + 0.05 * Wobble(gpu, now, 7));
  return static_cast<std::uint64_t>(kPcieIdle + load * PcieFullLoad(gpu) * PcieShare(direction));
}

std::uint64_t LinkBytes(const GpuState& gpu, std::int64_t now) {
  return static_cast<std::uint64_t>(BusySeconds(gpu, now) * 0.4e6 * gpu.link_speed_mbps);
}

std::uint64_t LinkBytesPerSecond(const GpuState& gpu, std::int64_t now) {
  const double load = Load(gpu) * (1 + 0.05 * Wobble(gpu, now, 9));
  return static_cast<std::uint64_t>(load * 0.4e6 * gpu.link_speed_mbps);
}

std::uint32_t PcieGeneration(const GpuState& gpu) {
  return gpu.pcie_trained_generation != 0 ? gpu.pcie_trained_generation : gpu.pcie_generation;
}

std::uint32_t PcieWidth(const GpuState& gpu) {
  return gpu.pcie_trained_width != 0 ? gpu.pcie_trained_width : gpu.pcie_width;
}

double PcieCopyRate(const GpuState& gpu) { return 2 * PcieFullLoad(gpu); }

double MemoryCopyRate(const GpuState& gpu) {
  // Two bits a clock and wire.
  return 0.8 * 2e6 * gpu.memory_clock_max * gpu.memory_bus_width / 8;
}

double NvLinkCopyRate(const GpuState& gpu) {
  unsigned up = 0;
  for (unsigned link = 0; link < gpu.link_count; ++link) up += (gpu.links_down >> link & 1) ^ 1;
  return 0.8 * 1e6 * up * gpu.link_speed_mbps;
}

std::uint64_t ClocksEventReasons(const GpuState& gpu) {
  return gpu.throttle.reasons | (gpu.load == 0 ? kClocksGpuIdle : 0);
}

std::uint64_t ThrottledNanoseconds(const GpuState& gpu, std::uint64_t reasons, std::int64_t now) {
  std::uint64_t sum = 0;
  for (unsigned bit = 0; bit < kThrottleReasons; ++bit) {
    if ((reasons >> bit & 1) != 0) sum += gpu.throttle.nanoseconds[bit];
  }
  if ((gpu.throttle.reasons & reasons) == 0) return sum;
  return sum + static_cast<std::uint64_t>(std::max<std::int64_t>(0, now - gpu.throttle.since));
}

std::uint64_t ProcessMemory(const GpuState& gpu) {
  std::uint64_t used = 0;
  for (const auto& process : gpu.processes) {
    if (process.pid != 0) used += process.used_memory;
  }
  return std::min(used, gpu.memory_total - gpu.memory_reserved);
}

void CountUntil(GpuState& gpu, std::int64_t now) {
  const auto energy = Energy(gpu, now);
  gpu.idle_until = IdleNanoseconds(gpu, now);
  gpu.busy_until = static_cast<std::uint64_t>(BusySeconds(gpu, now) * 1e9);
  gpu.energy_until = energy;
  gpu.energy_since = now;
}

void SetLoad(GpuState& gpu, std::uint32_t percent, std::int64_t now) {
  CountUntil(gpu, now);
  gpu.load = std::min(percent, 100u);
}

void SetThrottleReasons(GpuState& gpu, std::uint64_t reasons, std::int64_t now) {
  ThrottleState& throttle = gpu.throttle;
  for (unsigned bit = 0; bit < kThrottleReasons; ++bit) {
    if ((throttle.reasons >> bit & 1) == 0) continue;
    throttle.nanoseconds[bit] +=
        static_cast<std::uint64_t>(std::max<std::int64_t>(0, now - throttle.since));
  }
  throttle.reasons = reasons;
  throttle.since = now;
}

}  // namespace pitcrew::simulation
