// What says how worn or ill a GPU is: remapped rows, retired pages, SRAM errors, time under limits.
#include <algorithm>

#include "nvml/abi_metrics.h"
#include "simulation/nvml/session.h"
#include "simulation/state/mig.h"
#include "simulation/state/readings.h"

using namespace pitcrew::nvml::abi;
using namespace pitcrew::simulation;
using namespace pitcrew::simulation::library;

namespace {

// Not while MIG instances exist, and not on boards that retire pages.
Return ResolveRemapper(Device device, Target& target) {
  NVML_TRY(ResolveGpu(device, target));
  if (target.gpu->remap_banks == 0 || !ListMigDevices(*target.gpu).empty()) return kNotSupported;
  return kSuccess;
}

}  // namespace

NVML_API Return nvmlDeviceGetRemappedRows(Device device, unsigned* correctable,
                                          unsigned* uncorrectable, unsigned* pending,
                                          unsigned* failure) {
  Target target;
  NVML_TRY(ResolveRemapper(device, target));
  NVML_REQUIRE(correctable != nullptr && uncorrectable != nullptr && pending != nullptr &&
               failure != nullptr);
  *correctable = target.gpu->remapped_correctable;
  *uncorrectable = target.gpu->remapped_uncorrectable;
  *pending = target.gpu->remap_pending;
  *failure = target.gpu->remap_failure;
  return kSuccess;
}

// A remapped row takes one bank from the fullest group to the next; a failure leaves one with none.
NVML_API Return nvmlDeviceGetRowRemapperHistogram(Device device, RowRemapperHistogram* histogram) {
  Target target;
  NVML_TRY(ResolveRemapper(device, target));
  NVML_REQUIRE(histogram != nullptr);
  const GpuState& gpu = *target.gpu;
  const unsigned none = std::min(gpu.remap_failure, gpu.remap_banks);
  const unsigned rows = gpu.remapped_correctable + gpu.remapped_uncorrectable;
  const unsigned high = std::min(rows, gpu.remap_banks - none);
  *histogram = {gpu.remap_banks - none - high, high, 0, 0, none};
  return kSuccess;
}

NVML_API Return nvmlDeviceGetRetiredPages(Device device, unsigned cause, unsigned* count,
                                          unsigned long long* addresses) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  NVML_REQUIRE(cause <= 1 && count != nullptr);
  if (target.gpu->remap_banks != 0 || target.gpu->ecc_supported == 0) return kNotSupported;
  const unsigned found =
      cause == 0 ? target.gpu->retired_single_bit : target.gpu->retired_double_bit;
  const unsigned room = *count;
  *count = found;
  if (addresses == nullptr) return kSuccess;
  if (room < found) return kInsufficientSize;
  // Somewhere in the memory, 4 KiB each.
  for (unsigned page = 0; page < found; ++page) {
    addresses[page] = (2ull * page + cause + 1) << 12;
  }
  return kSuccess;
}

NVML_API Return nvmlDeviceGetRetiredPages_v2(Device device, unsigned cause, unsigned* count,
                                             unsigned long long* addresses,
                                             unsigned long long* timestamps) {
  NVML_TRY(nvmlDeviceGetRetiredPages(device, cause, count, addresses));
  if (timestamps != nullptr && addresses != nullptr) std::fill_n(timestamps, *count, 0ull);
  return kSuccess;
}

NVML_API Return nvmlDeviceGetRetiredPagesPendingStatus(Device device, unsigned* pending) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  NVML_REQUIRE(pending != nullptr);
  if (target.gpu->remap_banks != 0 || target.gpu->ecc_supported == 0) return kNotSupported;
  *pending = target.gpu->remap_pending;
  return kSuccess;
}

// Memory that no spare row is left for. Hopper and later tell it.
NVML_API Return nvmlDeviceGetUnrepairableMemoryFlag_v1(Device device,
                                                       UnrepairableMemoryStatus* status) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  NVML_REQUIRE(status != nullptr);
  constexpr std::uint32_t kHopper = 9;
  if (target.gpu->architecture < kHopper || target.gpu->remap_banks == 0) return kNotSupported;
  status->unrepairable = target.gpu->remap_failure;
  return kSuccess;
}

NVML_API Return nvmlDeviceGetSramEccErrorStatus(Device device, EccSramErrorStatusV1* status) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  NVML_REQUIRE(status != nullptr);
  if (status->version != kEccSramErrorStatusV1) return kArgumentVersionMismatch;
  if (target.gpu->remap_banks == 0 || target.gpu->ecc_current == 0) return kNotSupported;
  *status = {};
  status->version = kEccSramErrorStatusV1;
  status->threshold_exceeded = target.gpu->sram_threshold_exceeded;
  return kSuccess;
}

NVML_API Return nvmlDeviceGetViolationStatus(Device device, unsigned policy, ViolationTime* time) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  NVML_REQUIRE(time != nullptr);
  std::uint64_t reasons = 0;
  bool idle = false;  // whether an idle GPU's time counts
  switch (policy) {
    case 0:
      reasons = kClocksSwPowerCap;
      break;
    case 1:
      reasons = kClocksSwThermalSlowdown | kClocksHwThermalSlowdown;
      break;
    case 2:
      reasons = kClocksSyncBoost;
      break;
    case 3:
      reasons = kClocksHwPowerBrakeSlowdown;
      break;
    case 4:
      idle = true;
      break;
    case 5:
      break;  // reliability never holds a simulated clock down
    case 10:
      idle = true;
      reasons = ~std::uint64_t{0};
      break;
    case 11:
      idle = true;
      reasons = kClocksHwSlowdown | kClocksHwThermalSlowdown | kClocksHwPowerBrakeSlowdown;
      break;
    default:
      return kInvalidArgument;
  }
  const auto now = RealtimeNow();
  *time = {static_cast<unsigned long long>(now / 1000),
           ThrottledNanoseconds(*target.gpu, reasons, now) +
               (idle ? IdleNanoseconds(*target.gpu, now) : 0)};
  return kSuccess;
}

NVML_API Return nvmlDeviceValidateInforom(Device device) {
  Target target;
  return ResolveGpu(device, target);
}
