// Clocks that a GPU has and could have, what holds them down, and temperatures by version.
#include <algorithm>
#include <vector>

#include "nvml/abi_metrics.h"
#include "simulation/nvml/session.h"
#include "simulation/state/readings.h"

using namespace pitcrew::nvml::abi;
using namespace pitcrew::simulation;
using namespace pitcrew::simulation::library;

namespace {

// nvmlClockId_t.
enum ClockId : unsigned {
  kCurrent = 0,
  kApplicationTarget = 1,
  kApplicationDefault = 2,
  kBoost = 3
};
constexpr unsigned kUnknownState = 32;  // NVML_PSTATE_UNKNOWN
constexpr unsigned kClockStep = 15;     // MHz

unsigned HighestClock(const GpuState& gpu, unsigned type) {
  if (type == kClockMemory) return gpu.memory_clock_max;
  return type == kClockVideo ? gpu.video_clock_max : gpu.sm_clock_max;
}

unsigned ClockNow(const GpuState& gpu, unsigned type) {
  if (type == kClockMemory) return MemoryClock(gpu);
  const auto now = RealtimeNow();
  return type == kClockVideo ? VideoClock(gpu, now) : SmClock(gpu, now);
}

// Highest first, as NVML lists them.
std::vector<unsigned> MemoryClocks(const GpuState& gpu) {
  std::vector<unsigned> clocks = {gpu.memory_clock_max};
  if (gpu.memory_clock_low != 0) clocks.push_back(gpu.memory_clock_low);
  if (gpu.memory_clock_idle != gpu.memory_clock_max) clocks.push_back(gpu.memory_clock_idle);
  return clocks;
}

std::vector<unsigned> GraphicsClocks(const GpuState& gpu, unsigned memory_clock) {
  // Beside an idle memory only the idle clock makes sense.
  const bool idle = memory_clock == gpu.memory_clock_idle && memory_clock != gpu.memory_clock_max;
  if (idle) return {gpu.sm_clock_idle};
  std::vector<unsigned> clocks;
  for (unsigned clock = gpu.sm_clock_max; clock >= gpu.sm_clock_idle && clock >= kClockStep;
       clock -= kClockStep) {
    clocks.push_back(clock);
  }
  return clocks;
}

// P2 has the lower of two memory clocks, and stands before P0.
std::vector<unsigned> PerformanceStates(const GpuState& gpu) {
  if (gpu.memory_clock_low != 0) return {2, 0};
  if (gpu.memory_clock_idle == gpu.memory_clock_max) return {0};
  return {0, 8};
}

// Writes `all` into the caller's buffer of *count entries.
Return List(const std::vector<unsigned>& all, unsigned* count, unsigned* out) {
  const unsigned room = *count;
  *count = static_cast<unsigned>(all.size());
  if (out == nullptr || room < all.size()) return kInsufficientSize;
  std::ranges::copy(all, out);
  return kSuccess;
}

}  // namespace

NVML_API Return nvmlDeviceGetClock(Device device, unsigned type, unsigned id, unsigned* mhz) {
  Target target;
  NVML_TRY(ResolveDevice(device, target));
  NVML_REQUIRE(type <= kClockVideo && id <= kBoost && mhz != nullptr);
  if (target.compute != nullptr) return kNotSupported;
  if (id == kBoost && type == kClockMemory) return kNotSupported;
  *mhz = id == kCurrent ? ClockNow(*target.gpu, type) : HighestClock(*target.gpu, type);
  return kSuccess;
}

NVML_API Return nvmlDeviceGetMaxCustomerBoostClock(Device device, unsigned type, unsigned* mhz) {
  return nvmlDeviceGetClock(device, type, kBoost, mhz);
}

NVML_API Return nvmlDeviceGetSupportedMemoryClocks(Device device, unsigned* count,
                                                   unsigned* clocks) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  NVML_REQUIRE(count != nullptr);
  return List(MemoryClocks(*target.gpu), count, clocks);
}

NVML_API Return nvmlDeviceGetSupportedGraphicsClocks(Device device, unsigned memory_clock,
                                                     unsigned* count, unsigned* clocks) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  NVML_REQUIRE(count != nullptr);
  const auto memory = MemoryClocks(*target.gpu);
  if (std::ranges::find(memory, memory_clock) == memory.end()) return kNotFound;
  return List(GraphicsClocks(*target.gpu, memory_clock), count, clocks);
}

// `size` is in bytes; what the list does not need is "unknown".
NVML_API Return nvmlDeviceGetSupportedPerformanceStates(Device device, unsigned* states,
                                                        unsigned size) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  NVML_REQUIRE(states != nullptr);
  const unsigned room = size / static_cast<unsigned>(sizeof(unsigned));
  const std::vector<unsigned> supported = PerformanceStates(*target.gpu);
  if (room < supported.size()) return kInsufficientSize;
  std::fill_n(states, room, kUnknownState);
  std::ranges::copy(supported, states);
  return kSuccess;
}

NVML_API Return nvmlDeviceGetCurrentClocksEventReasons(Device device, unsigned long long* reasons) {
  Target target;
  NVML_TRY(ResolveDevice(device, target));
  NVML_REQUIRE(reasons != nullptr);
  if (target.compute != nullptr) return kNotSupported;
  *reasons = ClocksEventReasons(*target.gpu);
  return kSuccess;
}
NVML_API Return nvmlDeviceGetCurrentClocksThrottleReasons(Device device,
                                                          unsigned long long* reasons) {
  return nvmlDeviceGetCurrentClocksEventReasons(device, reasons);
}

NVML_API Return nvmlDeviceGetSupportedClocksEventReasons(Device device,
                                                         unsigned long long* reasons) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  NVML_REQUIRE(reasons != nullptr);
  *reasons = 2 * kClocksDisplaySetting - 1;  // all nine
  return kSuccess;
}
NVML_API Return nvmlDeviceGetSupportedClocksThrottleReasons(Device device,
                                                            unsigned long long* reasons) {
  return nvmlDeviceGetSupportedClocksEventReasons(device, reasons);
}

NVML_API Return nvmlDeviceGetTemperatureV(Device device, TemperatureV1* temperature) {
  Target target;
  NVML_TRY(ResolveDevice(device, target));
  NVML_REQUIRE(temperature != nullptr);
  if (temperature->version != kTemperatureV1) return kArgumentVersionMismatch;
  NVML_REQUIRE(temperature->sensor == 0);
  if (target.compute != nullptr) return kNotSupported;
  temperature->temperature = static_cast<int>(Temperature(*target.gpu, RealtimeNow()));
  return kSuccess;
}

// Ada and later.
NVML_API Return nvmlDeviceGetMarginTemperature(Device device, MarginTemperatureV1* margin) {
  Target target;
  NVML_TRY(ResolveDevice(device, target));
  NVML_REQUIRE(margin != nullptr);
  if (margin->version != kMarginTemperatureV1) return kArgumentVersionMismatch;
  constexpr std::uint32_t kAda = 8;
  if (target.compute != nullptr || target.gpu->architecture < kAda) return kNotSupported;
  margin->margin = static_cast<int>(target.gpu->temperature_max_operating) -
                   static_cast<int>(Temperature(*target.gpu, RealtimeNow()));
  return kSuccess;
}
