// How busy the parts of a GPU are: engines, PCIe, samples of the last seconds.
#include <algorithm>
#include <cstdint>
#include <span>

#include "nvml/abi_metrics.h"
#include "simulation/nvml/architectures.h"
#include "simulation/nvml/session.h"
#include "simulation/state/readings.h"

using namespace pitcrew::nvml::abi;
using namespace pitcrew::simulation;
using namespace pitcrew::simulation::library;

namespace {

// Microseconds: as older boards' nvidia-smi, and an H200, have it.
unsigned SamplingPeriod(const GpuState& gpu) {
  return gpu.architecture >= kHopper ? 100000 : 167000;
}

// Engines are not measured in MIG mode (nvml.h).
Return ReadEngine(Device device, unsigned* utilization, unsigned* period,
                  std::uint32_t GpuState::* load) {
  Target target;
  NVML_TRY(ResolveDevice(device, target));
  NVML_REQUIRE(utilization != nullptr && period != nullptr);
  if (target.compute != nullptr || target.gpu->mig_current != 0) return kNotSupported;
  *utilization = target.gpu->*load;
  *period = SamplingPeriod(*target.gpu);
  return kSuccess;
}

// Samples that the driver keeps: one each 100 ms, for 12 s.
constexpr std::int64_t kSampleDistance = 100'000;  // microseconds
constexpr unsigned kSamples = 120;

// nvmlSamplingType_t.
enum SamplingType : unsigned {
  kTotalPower = 0,
  kGpuUtilization = 1,
  kMemoryUtilization = 2,
  kEncoderUtilization = 3,
  kDecoderUtilization = 4,
  kProcessorClock = 5,
  kMemoryClock = 6,
  kModulePower = 7,
  kJpegUtilization = 8,
  kOfaUtilization = 9,
};

unsigned SampleAt(const GpuState& gpu, unsigned type, std::int64_t now) {
  switch (type) {
    case kTotalPower:
      return PowerUsage(gpu, now);
    case kGpuUtilization:
      return GpuUtilization(gpu, now);
    case kMemoryUtilization:
      return MemoryUtilization(gpu, now);
    case kEncoderUtilization:
      return gpu.load_encoder;
    case kDecoderUtilization:
      return gpu.load_decoder;
    case kProcessorClock:
      return SmClock(gpu, now);
    case kMemoryClock:
      return MemoryClock(gpu);
    case kJpegUtilization:
      return gpu.load_jpeg;
    default:
      return gpu.load_ofa;
  }
}

bool IsUtilization(unsigned type) {
  return type != kTotalPower && type != kProcessorClock && type != kMemoryClock;
}

}  // namespace

NVML_API Return nvmlDeviceGetEncoderUtilization(Device device, unsigned* utilization,
                                                unsigned* period) {
  return ReadEngine(device, utilization, period, &GpuState::load_encoder);
}
NVML_API Return nvmlDeviceGetDecoderUtilization(Device device, unsigned* utilization,
                                                unsigned* period) {
  return ReadEngine(device, utilization, period, &GpuState::load_decoder);
}
NVML_API Return nvmlDeviceGetJpgUtilization(Device device, unsigned* utilization,
                                            unsigned* period) {
  return ReadEngine(device, utilization, period, &GpuState::load_jpeg);
}
NVML_API Return nvmlDeviceGetOfaUtilization(Device device, unsigned* utilization,
                                            unsigned* period) {
  return ReadEngine(device, utilization, period, &GpuState::load_ofa);
}

// In percent of all: no session runs. An H200, which has no encoder, says 100 of H.264 and HEVC as
// well; AV1 takes an encoder of Ada or later.
NVML_API Return nvmlDeviceGetEncoderCapacity(Device device, unsigned type, unsigned* capacity) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  NVML_REQUIRE(type <= 2 && capacity != nullptr);
  const std::span profiles(target.gpu->profiles, target.gpu->profile_count);
  const bool encodes = profiles.empty() || std::ranges::any_of(profiles, &GpuProfile::encoders);
  constexpr unsigned kAv1 = 2;
  if (type == kAv1 && (!encodes || target.gpu->architecture < kAda)) return kNotSupported;
  *capacity = 100;
  return kSuccess;
}

NVML_API Return nvmlDeviceGetEncoderStats(Device device, unsigned* sessions, unsigned* fps,
                                          unsigned* latency) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  NVML_REQUIRE(sessions != nullptr && fps != nullptr && latency != nullptr);
  *sessions = *fps = *latency = 0;
  return kSuccess;
}

// KB/s: 0 sent, 1 received.
NVML_API Return nvmlDeviceGetPcieThroughput(Device device, unsigned counter, unsigned* value) {
  Target target;
  NVML_TRY(ResolveDevice(device, target));
  NVML_REQUIRE(counter <= 1 && value != nullptr);
  if (target.compute != nullptr) return kNotSupported;
  const auto direction = counter == 0 ? Direction::kSent : Direction::kReceived;
  *value = static_cast<unsigned>(PcieBytesPerSecond(*target.gpu, direction, RealtimeNow()) / 1000);
  return kSuccess;
}

NVML_API Return nvmlDeviceGetSamples(Device device, unsigned type, unsigned long long last_seen,
                                     unsigned* value_type, unsigned* count, Sample* samples) {
  Target target;
  NVML_TRY(ResolveDevice(device, target));
  NVML_REQUIRE(type <= kOfaUtilization && value_type != nullptr && count != nullptr);
  NVML_REQUIRE(samples == nullptr || *count != 0);
  const GpuState& gpu = *target.gpu;
  if (target.compute != nullptr || type == kModulePower) return kNotSupported;
  if (gpu.mig_current != 0 && IsUtilization(type)) return kNotSupported;
  *value_type = kValueUnsignedInt;
  if (samples == nullptr) {
    *count = kSamples;
    return kSuccess;
  }
  const std::int64_t newest = RealtimeNow() / 1000 / kSampleDistance * kSampleDistance;
  unsigned found = 0;
  for (std::int64_t i = kSamples - 1; i >= 0 && found < *count; --i) {
    const std::int64_t stamp = newest - i * kSampleDistance;
    if (stamp <= static_cast<std::int64_t>(last_seen)) continue;
    samples[found].time_stamp = static_cast<unsigned long long>(stamp);
    samples[found].value.as_unsigned_long_long = 0;
    samples[found].value.as_unsigned = SampleAt(gpu, type, stamp * 1000);
    ++found;
  }
  *count = found;
  return found == 0 ? kNotFound : kSuccess;
}
