// nvmlDeviceGetFieldValues: one call for many readings, each with its own return code.
#include <algorithm>
#include <cstdint>
#include <span>

#include "nvml/abi_metrics.h"
#include "simulation/nvml/fields.h"
#include "simulation/nvml/session.h"
#include "simulation/state/mig.h"
#include "simulation/state/readings.h"

using namespace pitcrew::nvml::abi;
using namespace pitcrew::simulation;
using namespace pitcrew::simulation::library;

namespace {

// The type that a value has also where it is Not Supported, as an H200 answers
// (tests/data/read/H200.yaml); fields of no range here say none.
struct TypedRange {
  unsigned first;
  unsigned last;
  unsigned type;
};
constexpr TypedRange kTypes[] = {
    {field::kEccCurrent, field::kRetiredPending, kValueUnsignedLongLong},
    {field::kNvLinkLinkCount, field::kNvLinkLinkCount, kValueUnsignedInt},
    {field::kRetiredPendingSbe, field::kRetiredPendingDbe, kValueUnsignedLongLong},
    {field::kNvLinkThroughputDataTx, field::kRemappedFailure, kValueUnsignedLongLong},
    {field::kRemappedFailure + 1, field::kRemappedFailure + 1, kValueUnsignedInt},
    {field::kNvLinkErrorDlReplay, field::kNvLinkErrorDlCrc, kValueUnsignedLongLong},
    {field::kNvLinkGetSpeed, field::kIsMigModeIndependentMigQueryCapable + 1, kValueUnsignedInt},
    {223, 225, kValueUnsignedInt},  // thresholds of NVLink's low power
    {231, 234, kValueUnsignedInt},  // links between CPU and GPU
    {field::kPowerSmoothingFirst, field::kPowerSmoothingFirst + 2, kValueUnsignedInt},
    {259, 259, kValueUnsignedInt},
    {263, 264, kValueUnsignedInt},
    {field::kPowerSmoothingLast, field::kPowerSmoothingLast, kValueUnsignedInt},
    {field::kClocksEventReasonSwThermSlowdown, field::kEdppMultiplier - 1, kValueUnsignedLongLong},
    {279, 279, kValueUnsignedShort},
    {280, 280, kValueUnsignedInt},
    {282, 283, kValueUnsignedShort},
    {286, 287, kValueUnsignedShort}};

unsigned TypeOf(unsigned id) {
  const auto* range = std::ranges::find_if(
      kTypes, [&](const TypedRange& one) { return id >= one.first && id <= one.last; });
  return range == std::end(kTypes) ? kValueDouble : range->type;
}

// Every group below answers true when the field is one of its own: set, or left Not Supported.

bool ReadEcc(const Request& request, FieldValue& value) {
  if (!request.In(field::kEccCurrent, field::kEccDbeAggregateCbu)) return false;
  const GpuState& gpu = request.gpu;
  if (gpu.ecc_supported == 0) return true;
  if (request.id == field::kEccCurrent) {
    Set(value, std::uint64_t{gpu.ecc_current});
  } else if (request.id == field::kEccPending) {
    Set(value, std::uint64_t{gpu.ecc_pending});
  } else if (gpu.architecture >= kHopper && request.id > field::kEccDbeAggregateTotal) {
    return true;  // told by nvmlDeviceGetMemoryErrorCounter, of SRAM and DRAM
  } else if (gpu.ecc_current != 0) {
    // All simulated errors are in the device's memory.
    switch (request.id) {
      case field::kEccSbeVolatileTotal:
      case field::kEccSbeVolatileDevice:
        Set(value, gpu.ecc_corrected_volatile);
        break;
      case field::kEccDbeVolatileTotal:
      case field::kEccDbeVolatileDevice:
        Set(value, gpu.ecc_uncorrected_volatile);
        break;
      case field::kEccSbeAggregateTotal:
      case field::kEccSbeAggregateDevice:
        Set(value, gpu.ecc_corrected_aggregate);
        break;
      case field::kEccDbeAggregateTotal:
      case field::kEccDbeAggregateDevice:
        Set(value, gpu.ecc_uncorrected_aggregate);
        break;
      default:
        Set(value, std::uint64_t{0});
    }
  }
  return true;
}

// Boards either retire pages or remap rows.
bool ReadWornMemory(const Request& request, FieldValue& value) {
  const GpuState& gpu = request.gpu;
  const bool retires = gpu.remap_banks == 0;
  const bool has_instances = !ListMigDevices(gpu).empty();
  const auto set = [&](bool supported, std::uint64_t number) {
    if (supported) Set(value, number);
    return true;
  };
  switch (request.id) {
    case field::kRetiredSbe:
      return set(retires, gpu.retired_single_bit);
    case field::kRetiredDbe:
      return set(retires, gpu.retired_double_bit);
    case field::kRetiredPending:
      return set(retires, gpu.remap_pending);
    case field::kRetiredPendingSbe:
    case field::kRetiredPendingDbe:
      return set(retires, 0);
    case field::kRemappedCorrectable:
      return set(!retires && !has_instances, gpu.remapped_correctable);
    case field::kRemappedUncorrectable:
      return set(!retires && !has_instances, gpu.remapped_uncorrectable);
    case field::kRemappedPending:
      return set(!retires && !has_instances, gpu.remap_pending);
    case field::kRemappedFailure:
      return set(!retires && !has_instances, gpu.remap_failure);
    case field::kResetStatus:
      Set(value, gpu.recovery_action == kRecoveryGpuReset ? 1u : 0u);
      return true;
    case field::kDrainAndResetStatus:
      Set(value, gpu.recovery_action == kRecoveryDrainAndReset ? 1u : 0u);
      return true;
    case field::kGetGpuRecoveryAction:
      Set(value, gpu.recovery_action);
      return true;
    default:
      return false;
  }
}

// Nanoseconds for which clocks were held down. An idle GPU's are low for want of work, which an
// H200 counts as that and among all times below application and base clocks.
bool ReadThrottling(const Request& request, FieldValue& value) {
  const auto set = [&](std::uint64_t reasons, std::uint64_t more = 0) {
    Set(value, ThrottledNanoseconds(request.gpu, reasons, request.now) + more);
    return true;
  };
  const std::uint64_t idle = IdleNanoseconds(request.gpu, request.now);
  constexpr std::uint64_t kAny = ~std::uint64_t{0};
  switch (request.id) {
    case field::kPerfPolicyPower:
      return set(kClocksSwPowerCap);
    case field::kPerfPolicyThermal:
      return set(kClocksSwThermalSlowdown | kClocksHwThermalSlowdown);
    case field::kPerfPolicySyncBoost:
      return set(kClocksSyncBoost);
    case field::kPerfPolicyBoardLimit:
      return set(kClocksHwPowerBrakeSlowdown);
    case field::kPerfPolicyLowUtilization:
      return set(0, idle);
    case field::kPerfPolicyReliability:
      return set(0);
    case field::kPerfPolicyTotalAppClocks:
      return set(kAny, idle);
    case field::kPerfPolicyTotalBaseClocks:
      return set(kClocksHwSlowdown | kClocksHwThermalSlowdown | kClocksHwPowerBrakeSlowdown, idle);
    case field::kClocksEventReasonSwThermSlowdown:
      return set(kClocksSwThermalSlowdown);
    case field::kClocksEventReasonHwThermSlowdown:
      return set(kClocksHwThermalSlowdown);
    case field::kClocksEventReasonHwPowerBrakeSlowdown:
      return set(kClocksHwPowerBrakeSlowdown);
    default:
      return false;
  }
}

bool ReadPower(const Request& request, FieldValue& value) {
  const GpuState& gpu = request.gpu;
  if (request.id == field::kTotalEnergyConsumption) {
    Set(value, Energy(gpu, request.now));
    return true;
  }
  if (!request.In(field::kPowerAverage, field::kPowerRequestedLimit)) return false;
  if (request.scope != 0) return true;  // module and memory: no sensor of their own
  switch (request.id) {
    case field::kPowerAverage:
    case field::kPowerInstant:
      Set(value, PowerUsage(gpu, request.now));
      break;
    case field::kPowerMinLimit:
      Set(value, gpu.power_min);
      break;
    case field::kPowerMaxLimit:
    case field::kPowerDefaultLimit:
      Set(value, gpu.power_max);
      break;
    case field::kEnergy:
      Set(value, Energy(gpu, request.now));
      break;
    default:
      Set(value, gpu.power_limit);
  }
  return true;
}

// Ada and later tell limits as degrees to the highest temperature in operation.
bool ReadTemperature(const Request& request, FieldValue& value) {
  const GpuState& gpu = request.gpu;
  if (request.id == field::kMemoryTemperature) {
    if (gpu.memory_temperature_max != 0) Set(value, MemoryTemperature(gpu, request.now));
    return true;
  }
  if (!request.In(field::kTemperatureShutdownTlimit, field::kTemperatureGpuMaxTlimit)) return false;
  if (gpu.architecture < kAda) return true;
  const auto below = [&](std::uint32_t limit) {
    return static_cast<std::int32_t>(gpu.temperature_max_operating) -
           static_cast<std::int32_t>(limit);
  };
  if (request.id == field::kTemperatureShutdownTlimit) {
    Set(value, below(gpu.temperature_shutdown));
  } else if (request.id == field::kTemperatureSlowdownTlimit) {
    Set(value, below(gpu.temperature_slowdown));
  } else if (request.id == field::kTemperatureGpuMaxTlimit || gpu.memory_temperature_max != 0) {
    Set(value, 0);
  }
  return true;
}

bool ReadPcie(const Request& request, FieldValue& value) {
  const GpuState& gpu = request.gpu;
  if (request.id == field::kPcieReplayCounter) {
    Set(value, gpu.pcie_replays);
  } else if (request.id == field::kPcieReplayRolloverCounter ||
             request.id == field::kPcieL0ToRecoveryCounter) {
    Set(value, 0u);
  } else if (request.id == field::kPcieCountCorrectableErrors) {
    Set(value, gpu.pcie_correctable_errors);
  } else if (request.In(field::kPcieCountCorrectableErrors, field::kPcieCountLaneError)) {
    Set(value, 0u);
  } else if (request.id == field::kPcieCountTxBytes || request.id == field::kPcieCountRxBytes) {
    const auto direction =
        request.id == field::kPcieCountTxBytes ? Direction::kSent : Direction::kReceived;
    if (gpu.architecture >= kHopper) {
      Set(value, static_cast<std::uint32_t>(PcieBytes(gpu, direction, request.now)));  // wraps
    }
  } else if (request.id == field::kPcieOutboundAtomics ||
             request.id == field::kPcieInboundAtomics) {
    if (gpu.architecture >= kHopper) Set(value, 0u);
  } else {
    return false;
  }
  return true;
}

bool ReadMigAbilities(const Request& request, FieldValue& value) {
  if (request.id == field::kIsResetlessMigSupported) {
    if (request.gpu.mig_capable != 0) {
      Set(value, request.gpu.architecture >= kHopper ? 1u : 0u);
    }
    return true;
  }
  if (request.id != field::kIsMigModeIndependentMigQueryCapable) return false;
  if (request.gpu.architecture >= kAmpere) Set(value, request.gpu.mig_capable);
  return true;
}

void ReadField(const Target& target, FieldValue& value) {
  const std::int64_t now = RealtimeNow();
  value.timestamp = now / 1000;
  value.latency_usec = 0;
  value.nvml_return = kNotSupported;
  value.value_type = TypeOf(value.field_id);
  value.value.as_unsigned_long_long = 0;
  if (value.field_id == 0 || value.field_id >= field::kMax ||
      value.field_id == field::kEdppMultiplier) {
    value.nvml_return = kInvalidArgument;
    return;
  }
  const Request request{*target.node, *target.gpu,    target.handle->gpu,
                        now,          value.field_id, value.scope_id};
  constexpr bool (*kGroups[])(const Request&, FieldValue&) = {
      ReadEcc,        ReadWornMemory, ReadNumberedLink, ReadScopedLink, ReadLinkFacts,
      ReadThrottling, ReadPower,      ReadTemperature,  ReadPcie,       ReadMigAbilities};
  for (const auto& group : kGroups) {
    if (group(request, value)) return;
  }
}

}  // namespace

NVML_API Return nvmlDeviceGetFieldValues(Device device, int count, FieldValue* values) {
  Target target;
  NVML_TRY(ResolveDevice(device, target));
  NVML_REQUIRE(count > 0 && values != nullptr);
  if (target.compute != nullptr) return kNotSupported;
  std::for_each(values, values + count, [&](FieldValue& value) { ReadField(target, value); });
  return kSuccess;
}

// Counters of errors and traffic are cleared for all their readers; simulated ones go on counting.
NVML_API Return nvmlDeviceClearFieldValues(Device device, int count, FieldValue* values) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  NVML_REQUIRE(count > 0 && values != nullptr);
  std::for_each(values, values + count,
                [](FieldValue& value) { value.nvml_return = kNotSupported; });
  return kSuccess;
}
