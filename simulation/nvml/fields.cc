// nvmlDeviceGetFieldValues: one call for many readings, each with its own return code.
#include <algorithm>
#include <cstdint>

#include "nvml/abi_metrics.h"
#include "simulation/nvml/session.h"
#include "simulation/state/links.h"
#include "simulation/state/mig.h"
#include "simulation/state/readings.h"

using namespace pitcrew::nvml::abi;
using namespace pitcrew::simulation;
using namespace pitcrew::simulation::library;

namespace {

constexpr std::uint32_t kAmpere = 7;
constexpr std::uint32_t kAda = 8;
constexpr std::uint32_t kHopper = 9;
constexpr std::uint32_t kBlackwell = 10;

// Counters of a link, in the order of nvmlNvLinkErrorCounter_t.
enum LinkCounter : std::uint32_t { kReplay, kRecovery, kCrcFlit, kCrcData, kEccData };

// What is asked, of whom, when.
struct Request {
  const NodeState& node;
  const GpuState& gpu;
  std::uint32_t position;  // of the GPU in NodeState::gpus
  std::int64_t now;        // nanoseconds since the epoch
  unsigned id;
  unsigned scope;

  [[nodiscard]] bool In(unsigned first, unsigned last) const { return id >= first && id <= last; }
};

void Set(FieldValue& value, std::uint64_t number) {
  value.value_type = kValueUnsignedLongLong;
  value.value.as_unsigned_long_long = number;
  value.nvml_return = kSuccess;
}
void Set(FieldValue& value, std::uint32_t number) {
  value.value_type = kValueUnsignedInt;
  value.value.as_unsigned = number;
  value.nvml_return = kSuccess;
}
void Set(FieldValue& value, std::int32_t number) {
  value.value_type = kValueSignedInt;
  value.value.as_int = number;
  value.nvml_return = kSuccess;
}

// Every group below answers true when the field is one of its own: set, or left Not Supported.

bool ReadEcc(const Request& request, FieldValue& value) {
  if (!request.In(field::kEccCurrent, field::kEccDbeAggregateCbu)) return false;
  const GpuState& gpu = request.gpu;
  if (gpu.ecc_supported == 0) return true;
  if (request.id == field::kEccCurrent) {
    Set(value, gpu.ecc_current);
  } else if (request.id == field::kEccPending) {
    Set(value, gpu.ecc_pending);
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
  const auto set = [&](bool supported, std::uint32_t number) {
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
      return set(true, gpu.recovery_action == kRecoveryGpuReset ? 1 : 0);
    case field::kDrainAndResetStatus:
      return set(true, gpu.recovery_action == kRecoveryDrainAndReset ? 1 : 0);
    case field::kGetGpuRecoveryAction:
      return set(true, gpu.recovery_action);
    default:
      return false;
  }
}

std::uint64_t SumLinkErrors(const GpuState& gpu, LinkCounter counter) {
  std::uint64_t sum = 0;
  for (std::uint32_t link = 0; link < gpu.link_count; ++link) {
    sum += gpu.link_errors[link][counter];
  }
  return sum;
}

// Fields that name their link in the number of the field: six links, then the total, and six more
// elsewhere.
bool ReadNumberedLink(const Request& request, FieldValue& value) {
  struct Range {
    unsigned first;  // links 0 to 5, then the total
    unsigned more;   // links 6 to 11
    LinkCounter counter;
  };
  constexpr Range kRanges[] = {
      {field::kNvLinkCrcFlitErrors, field::kNvLinkCrcFlitErrorsL6, kCrcFlit},
      {field::kNvLinkCrcDataErrors, field::kNvLinkCrcDataErrorsL6, kCrcData},
      {field::kNvLinkReplayErrors, field::kNvLinkReplayErrorsL6, kReplay},
      {field::kNvLinkRecoveryErrors, field::kNvLinkRecoveryErrorsL6, kRecovery}};
  const GpuState& gpu = request.gpu;
  // From NVLink 5 on, links are asked for by scope.
  const auto set_link = [&](unsigned link, LinkCounter counter) {
    if (gpu.architecture < kBlackwell && link < gpu.link_count) {
      Set(value, gpu.link_errors[link][counter]);
    }
    return true;
  };
  for (const auto& range : kRanges) {
    if (request.In(range.first, range.first + 5)) {
      return set_link(request.id - range.first, range.counter);
    }
    if (request.In(range.more, range.more + 5)) {
      return set_link(request.id - range.more + 6, range.counter);
    }
    if (request.id == range.first + 6) {
      if (gpu.link_count != 0 && gpu.architecture < kBlackwell) {
        Set(value, SumLinkErrors(gpu, range.counter));
      }
      return true;
    }
  }
  if (request.In(field::kNvLinkEccDataErrors, field::kNvLinkEccDataErrors + 11)) {
    return set_link(request.id - field::kNvLinkEccDataErrors, kEccData);
  }
  if (request.id == field::kNvLinkEccDataErrorsTotal) {
    if (gpu.link_count != 0) Set(value, SumLinkErrors(gpu, kEccData));
    return true;
  }
  return false;
}

// Fields whose scope is a link, or all links.
bool ReadScopedLink(const Request& request, FieldValue& value) {
  const GpuState& gpu = request.gpu;
  const bool all = request.scope == kAllLinks;
  const std::uint64_t links = all ? gpu.link_count : 1;
  const auto errors = [&](LinkCounter counter) {
    return all ? SumLinkErrors(gpu, counter) : gpu.link_errors[request.scope][counter];
  };
  const bool known = request.In(field::kNvLinkThroughputDataTx, field::kNvLinkThroughputRawRx) ||
                     request.In(field::kNvLinkErrorDlReplay, field::kNvLinkGetVersion) ||
                     request.In(field::kNvLinkCountXmitPackets, field::kNvLinkCountSymbolBer) ||
                     request.In(field::kNvLinkCountFecHistory0, field::kNvLinkCountFecHistory15);
  if (!known) return false;
  if (!all && request.scope >= kMaxNvLinks) {
    value.nvml_return = kInvalidArgument;
    return true;
  }
  if (gpu.link_count == 0 || (!all && request.scope >= gpu.link_count)) return true;
  const bool up = FarEnd(request.node, request.position, all ? 0 : request.scope).kind !=
                  LinkEnd::Kind::kNothing;
  const std::uint64_t bytes = up ? links * LinkBytes(gpu, request.now) : 0;
  if (request.id >= field::kNvLinkCountXmitPackets && gpu.architecture < kBlackwell) return true;
  switch (request.id) {
    case field::kNvLinkThroughputDataTx:
    case field::kNvLinkThroughputDataRx:
      Set(value, bytes / 1024);
      break;
    case field::kNvLinkThroughputRawTx:
    case field::kNvLinkThroughputRawRx:
      Set(value, bytes / 1024 * 9 / 8);  // with the link's own overhead
      break;
    case field::kNvLinkErrorDlReplay:
      Set(value, errors(kReplay));
      break;
    case field::kNvLinkErrorDlRecovery:
    case field::kNvLinkCountLinkRecoveryEvents:
    case field::kNvLinkCountLinkRecoverySuccessfulEvents:
      Set(value, errors(kRecovery));
      break;
    case field::kNvLinkErrorDlCrc:
    case field::kNvLinkCountRcvErrors:
      Set(value, errors(kCrcFlit) + errors(kCrcData));
      break;
    case field::kNvLinkGetSpeed:
      Set(value, up ? gpu.link_speed_mbps : 0u);
      break;
    case field::kNvLinkGetState:
      Set(value, up ? 1u : 0u);
      break;
    case field::kNvLinkGetVersion:
      Set(value, gpu.link_version);
      break;
    case field::kNvLinkCountXmitBytes:
    case field::kNvLinkCountRcvBytes:
      Set(value, bytes);
      break;
    case field::kNvLinkCountXmitPackets:
    case field::kNvLinkCountRcvPackets:
      Set(value, bytes / 256);
      break;
    case field::kNvLinkCountEffectiveBer:
    case field::kNvLinkCountSymbolBer:
      Set(value, kNoBitErrors);
      break;
    default:
      Set(value, std::uint64_t{0});
  }
  return true;
}

bool ReadLinkFacts(const Request& request, FieldValue& value) {
  const GpuState& gpu = request.gpu;
  if (request.id == field::kNvLinkLinkCount) {
    Set(value, gpu.link_count);
    return true;
  }
  const bool low = request.In(field::kNvLinkSpeedMbps, field::kNvLinkSpeedMbpsCommon);
  if (!low && !request.In(field::kNvLinkSpeedMbpsL6, field::kNvLinkSpeedMbpsL6 + 5)) return false;
  const bool common = request.id == field::kNvLinkSpeedMbpsCommon;
  const unsigned link = common ? 0
                        : low  ? request.id - field::kNvLinkSpeedMbps
                               : request.id - field::kNvLinkSpeedMbpsL6 + 6;
  if (link < gpu.link_count) Set(value, gpu.link_speed_mbps);
  return true;
}

// Nanoseconds for which clocks were held down.
bool ReadThrottling(const Request& request, FieldValue& value) {
  const auto set = [&](std::uint64_t reasons) {
    Set(value, ThrottledNanoseconds(request.gpu, reasons, request.now));
    return true;
  };
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
    case field::kPerfPolicyReliability:
      return set(0);
    case field::kPerfPolicyTotalAppClocks:
      return set(kAny);
    case field::kPerfPolicyTotalBaseClocks:
      return set(kClocksHwSlowdown | kClocksHwThermalSlowdown | kClocksHwPowerBrakeSlowdown);
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
    if (gpu.architecture >= kHopper) Set(value, PcieBytes(gpu, direction, request.now));
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
  if (value.field_id == 0 || value.field_id >= field::kMax) {
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
