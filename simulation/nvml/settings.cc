// Settings and sessions that a GPU has and nobody uses here. What each answers was read from an
// H200 (tests/data/read/H200.yaml); boards before Hopper, of which nothing was read, say Not
// Supported.
#include <string>

#include "nvml/abi_metrics.h"
#include "simulation/nvml/architectures.h"
#include "simulation/nvml/session.h"
#include "simulation/state/identity.h"

using namespace pitcrew::nvml::abi;
using namespace pitcrew::simulation;
using namespace pitcrew::simulation::library;

namespace {

Return ResolveHopper(Device device, Target& target) {
  NVML_TRY(ResolveGpu(device, target));
  return target.gpu->architecture >= kHopper ? kSuccess : kNotSupported;
}

// One number that never changes.
template <class T>
Return Say(Device device, T* value, T number) {
  Target target;
  NVML_TRY(ResolveHopper(device, target));
  NVML_REQUIRE(value != nullptr);
  *value = number;
  return kSuccess;
}

}  // namespace

// Who may change what (0 application clocks, 1 automatic boost): 0, everyone.
NVML_API Return nvmlDeviceGetAPIRestriction(Device device, unsigned api, unsigned* restricted) {
  NVML_TRY(Say(device, restricted, 0u));
  NVML_REQUIRE(api <= 1);
  return api == 1 ? kSuccess : kNotSupported;
}

// Accounting is off; so many processes would be kept.
NVML_API Return nvmlDeviceGetAccountingMode(Device device, unsigned* mode) {
  return Say(device, mode, kFeatureDisabled);
}
NVML_API Return nvmlDeviceGetAccountingBufferSize(Device device, unsigned* size) {
  return Say(device, size, 4000u);
}
NVML_API Return nvmlDeviceGetAccountingPids(Device device, unsigned* count, unsigned*) {
  return Say(device, count, 0u);
}

NVML_API Return nvmlDeviceGetAdaptiveClockInfoStatus(Device device, unsigned* status) {
  return Say(device, status, 1u);
}
// PCIe.
NVML_API Return nvmlDeviceGetBusType(Device device, unsigned* type) {
  return Say(device, type, 2u);
}
// Mains.
NVML_API Return nvmlDeviceGetPowerSource(Device device, unsigned* source) {
  return Say(device, source, 0u);
}

// The processor of a superchip is not simulated.
NVML_API Return nvmlDeviceGetC2cModeInfoV(Device device, unsigned* enabled) {
  return Say(device, enabled, 0u);
}

// Offsets of the curve of voltage and frequency, and how far they could be moved.
NVML_API Return nvmlDeviceGetGpcClkVfOffset(Device device, int* mhz) { return Say(device, mhz, 0); }
NVML_API Return nvmlDeviceGetMemClkVfOffset(Device device, int* mhz) { return Say(device, mhz, 0); }
NVML_API Return nvmlDeviceGetGpcClkMinMaxVfOffset(Device device, int* least, int* most) {
  NVML_TRY(Say(device, least, 0));
  return Say(device, most, 0);
}
NVML_API Return nvmlDeviceGetMemClkMinMaxVfOffset(Device device, int* least, int* most) {
  NVML_TRY(Say(device, least, 0));
  return Say(device, most, 0);
}

// Nobody encodes or captures frames.
NVML_API Return nvmlDeviceGetEncoderSessions(Device device, unsigned* count, void*) {
  return Say(device, count, 0u);
}
NVML_API Return nvmlDeviceGetFBCSessions(Device device, unsigned* count, void*) {
  return Say(device, count, 0u);
}
NVML_API Return nvmlDeviceGetFBCStats(Device device, FrameCaptureStats* stats) {
  return Say(device, stats, FrameCaptureStats{});
}

// The black box has not been written yet.
NVML_API Return nvmlDeviceGetLastBBXFlushTime(Device device, unsigned long long*, unsigned long*) {
  Target target;
  NVML_TRY(ResolveHopper(device, target));
  return kNotReady;
}

NVML_API Return nvmlDeviceGetPdi(Device device, PdiV1* pdi) {
  Target target;
  NVML_TRY(ResolveHopper(device, target));
  NVML_REQUIRE(pdi != nullptr);
  if (pdi->version != kPdiV1) return kArgumentVersionMismatch;
  const std::string uuid = target.gpu->uuid;
  pdi->value = std::uint64_t{NamedNumber("pdi/" + uuid)} << 32 | NamedNumber(uuid);
  return kSuccess;
}

NVML_API Return nvmlDeviceGetRepairStatus(Device device, RepairStatusV1* status) {
  Target target;
  NVML_TRY(ResolveHopper(device, target));
  NVML_REQUIRE(status != nullptr);
  if (status->version != kRepairStatusV1) return kArgumentVersionMismatch;
  *status = {kRepairStatusV1, 0, 0};
  return kSuccess;
}

// Cards of S-class systems: none.
NVML_API Return nvmlSystemGetHicVersion(unsigned* count, void*) {
  if (!Session::Get().state()) return kUninitialized;
  NVML_REQUIRE(count != nullptr);
  *count = 0;
  return kSuccess;
}

// Full bandwidth.
NVML_API Return nvmlSystemGetNvlinkBwMode(unsigned* mode) {
  if (!Session::Get().state()) return kUninitialized;
  NVML_REQUIRE(mode != nullptr);
  *mode = 0;
  return kSuccess;
}
