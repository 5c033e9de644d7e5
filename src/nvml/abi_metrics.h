// NVML's binary interface for readings, health and profiling: field values, row remapping, samples,
// GPM. Structures, versions and numbers are those of NVIDIA's public nvml.h (API version 13); sizes
// and offsets are checked below at compile time. Which call yields which metric:
// metrics-exporter.md sections 8 and 9.
#pragma once

#include <cstddef>

#include "nvml/abi.h"

namespace pitcrew::nvml::abi {

// The version word of a structure: its size and its number.
template <class Struct>
constexpr unsigned VersionWord(unsigned number) {
  return static_cast<unsigned>(sizeof(Struct)) | number << 24;
}

// nvmlValueType_t
inline constexpr unsigned kValueDouble = 0;
inline constexpr unsigned kValueUnsignedInt = 1;
inline constexpr unsigned kValueUnsignedLong = 2;
inline constexpr unsigned kValueUnsignedLongLong = 3;
inline constexpr unsigned kValueSignedLongLong = 4;
inline constexpr unsigned kValueSignedInt = 5;
inline constexpr unsigned kValueUnsignedShort = 6;

union Value {
  double as_double;
  int as_int;
  unsigned as_unsigned;
  unsigned long as_unsigned_long;
  unsigned long long as_unsigned_long_long;
  long long as_long_long;
  unsigned short as_unsigned_short;
};
static_assert(sizeof(Value) == 8);

// One entry of nvmlDeviceGetFieldValues. `scope_id` is a link of NVLink fields (kAllLinks: the
// sum), or the part that a power field is about (0 GPU, 1 module, 2 memory).
struct FieldValue {
  unsigned field_id;
  unsigned scope_id;
  long long timestamp;     // microseconds since the epoch
  long long latency_usec;  // how long the reading took
  unsigned value_type;
  Return nvml_return;
  Value value;
};
static_assert(sizeof(FieldValue) == 40 && offsetof(FieldValue, value_type) == 24 &&
              offsetof(FieldValue, value) == 32);
inline constexpr unsigned kAllLinks = 0xffffffff;

// NVML_FI_*: what FieldValue::field_id asks for. Per-link fields stand for their first link.
namespace field {
inline constexpr unsigned kEccCurrent = 1;
inline constexpr unsigned kEccPending = 2;
inline constexpr unsigned kEccSbeVolatileTotal = 3;
inline constexpr unsigned kEccDbeVolatileTotal = 4;
inline constexpr unsigned kEccSbeAggregateTotal = 5;
inline constexpr unsigned kEccDbeAggregateTotal = 6;
inline constexpr unsigned kEccSbeVolatileDevice = 11;
inline constexpr unsigned kEccDbeVolatileDevice = 12;
inline constexpr unsigned kEccDbeVolatileCbu = 17;
inline constexpr unsigned kEccSbeAggregateDevice = 22;
inline constexpr unsigned kEccDbeAggregateDevice = 23;
inline constexpr unsigned kEccDbeAggregateCbu = 28;
inline constexpr unsigned kRetiredSbe = 29;
inline constexpr unsigned kRetiredDbe = 30;
inline constexpr unsigned kRetiredPending = 31;
inline constexpr unsigned kNvLinkCrcFlitErrors = 32;  // links 0 to 5, then the total
inline constexpr unsigned kNvLinkCrcDataErrors = 39;
inline constexpr unsigned kNvLinkReplayErrors = 46;
inline constexpr unsigned kNvLinkRecoveryErrors = 53;
inline constexpr unsigned kPerfPolicyPower = 74;
inline constexpr unsigned kPerfPolicyThermal = 75;
inline constexpr unsigned kPerfPolicySyncBoost = 76;
inline constexpr unsigned kPerfPolicyBoardLimit = 77;
inline constexpr unsigned kPerfPolicyLowUtilization = 78;
inline constexpr unsigned kPerfPolicyReliability = 79;
inline constexpr unsigned kPerfPolicyTotalAppClocks = 80;
inline constexpr unsigned kPerfPolicyTotalBaseClocks = 81;
inline constexpr unsigned kMemoryTemperature = 82;
inline constexpr unsigned kTotalEnergyConsumption = 83;
inline constexpr unsigned kNvLinkSpeedMbps = 84;  // links 0 to 5, then what all have
inline constexpr unsigned kNvLinkSpeedMbpsCommon = 90;
inline constexpr unsigned kNvLinkLinkCount = 91;
inline constexpr unsigned kRetiredPendingSbe = 92;
inline constexpr unsigned kRetiredPendingDbe = 93;
inline constexpr unsigned kPcieReplayCounter = 94;
inline constexpr unsigned kPcieReplayRolloverCounter = 95;
inline constexpr unsigned kNvLinkCrcFlitErrorsL6 = 96;  // links 6 to 11
inline constexpr unsigned kNvLinkCrcDataErrorsL6 = 102;
inline constexpr unsigned kNvLinkReplayErrorsL6 = 108;
inline constexpr unsigned kNvLinkRecoveryErrorsL6 = 114;
inline constexpr unsigned kNvLinkSpeedMbpsL6 = 132;
inline constexpr unsigned kNvLinkThroughputDataTx = 138;  // KiB
inline constexpr unsigned kNvLinkThroughputDataRx = 139;
inline constexpr unsigned kNvLinkThroughputRawTx = 140;
inline constexpr unsigned kNvLinkThroughputRawRx = 141;
inline constexpr unsigned kRemappedCorrectable = 142;
inline constexpr unsigned kRemappedUncorrectable = 143;
inline constexpr unsigned kRemappedPending = 144;
inline constexpr unsigned kRemappedFailure = 145;
inline constexpr unsigned kNvSwitchConnectedLinks = 147;
inline constexpr unsigned kNvLinkEccDataErrors = 148;  // links 0 to 11, then the total
inline constexpr unsigned kNvLinkEccDataErrorsTotal = 160;
inline constexpr unsigned kNvLinkErrorDlReplay = 161;
inline constexpr unsigned kNvLinkErrorDlRecovery = 162;
inline constexpr unsigned kNvLinkErrorDlCrc = 163;
inline constexpr unsigned kNvLinkGetSpeed = 164;
inline constexpr unsigned kNvLinkGetState = 165;
inline constexpr unsigned kNvLinkGetVersion = 166;
inline constexpr unsigned kPcieL0ToRecoveryCounter = 169;
inline constexpr unsigned kPcieCountCorrectableErrors = 173;
inline constexpr unsigned kPcieCountLaneError = 183;
inline constexpr unsigned kIsResetlessMigSupported = 184;
inline constexpr unsigned kPowerAverage = 185;
inline constexpr unsigned kPowerInstant = 186;
inline constexpr unsigned kPowerMinLimit = 187;
inline constexpr unsigned kPowerMaxLimit = 188;
inline constexpr unsigned kPowerDefaultLimit = 189;
inline constexpr unsigned kPowerCurrentLimit = 190;
inline constexpr unsigned kEnergy = 191;
inline constexpr unsigned kPowerRequestedLimit = 192;
inline constexpr unsigned kTemperatureShutdownTlimit =
    193;  // degrees beyond the highest in operation
inline constexpr unsigned kTemperatureSlowdownTlimit = 194;
inline constexpr unsigned kTemperatureMemoryMaxTlimit = 195;
inline constexpr unsigned kTemperatureGpuMaxTlimit = 196;
inline constexpr unsigned kPcieCountTxBytes = 197;  // 32 bits: they wrap
inline constexpr unsigned kPcieCountRxBytes = 198;
inline constexpr unsigned kIsMigModeIndependentMigQueryCapable = 199;
inline constexpr unsigned kNvLinkCountXmitPackets = 201;
inline constexpr unsigned kNvLinkCountXmitBytes = 202;
inline constexpr unsigned kNvLinkCountRcvPackets = 203;
inline constexpr unsigned kNvLinkCountRcvBytes = 204;
inline constexpr unsigned kNvLinkCountMalformedPacketErrors = 206;
inline constexpr unsigned kNvLinkCountBufferOverrunErrors = 207;
inline constexpr unsigned kNvLinkCountRcvErrors = 208;
inline constexpr unsigned kNvLinkCountRcvRemoteErrors = 209;
inline constexpr unsigned kNvLinkCountRcvGeneralErrors = 210;
inline constexpr unsigned kNvLinkCountLocalLinkIntegrityErrors = 211;
inline constexpr unsigned kNvLinkCountLinkRecoverySuccessfulEvents = 213;
inline constexpr unsigned kNvLinkCountLinkRecoveryFailedEvents = 214;
inline constexpr unsigned kNvLinkCountLinkRecoveryEvents = 215;
inline constexpr unsigned kNvLinkCountEffectiveErrors = 219;
inline constexpr unsigned kNvLinkCountEffectiveBer = 220;
inline constexpr unsigned kNvLinkCountSymbolErrors = 221;
inline constexpr unsigned kNvLinkCountSymbolBer = 222;
inline constexpr unsigned kResetStatus = 226;
inline constexpr unsigned kDrainAndResetStatus = 227;
inline constexpr unsigned kPcieOutboundAtomics = 228;  // masks
inline constexpr unsigned kPcieInboundAtomics = 229;
inline constexpr unsigned kGetGpuRecoveryAction = 230;
inline constexpr unsigned kNvLinkCountFecHistory0 = 235;
inline constexpr unsigned kNvLinkCountFecHistory15 = 250;
inline constexpr unsigned kPowerSmoothingFirst = 251;
inline constexpr unsigned kPowerSmoothingLast = 268;
inline constexpr unsigned kClocksEventReasonSwThermSlowdown = 269;  // nanoseconds
inline constexpr unsigned kClocksEventReasonHwThermSlowdown = 270;
inline constexpr unsigned kClocksEventReasonHwPowerBrakeSlowdown = 271;
inline constexpr unsigned kEdppMultiplier = 274;
inline constexpr unsigned kMax = 289;  // of driver 580; later ones know more
}  // namespace field

// A bit error rate: a mantissa of four bits over an exponent of eight, mantissa * 10^-exponent.
constexpr std::uint64_t BerMantissa(std::uint64_t raw) { return raw >> 8U & 0xfU; }
constexpr std::uint64_t BerExponent(std::uint64_t raw) { return raw & 0xffU; }
inline constexpr std::uint64_t kNoBitErrors = 0xfff;

// nvmlGpuRecoveryAction_t, the value of field::kGetGpuRecoveryAction.
inline constexpr unsigned kRecoveryNone = 0;
inline constexpr unsigned kRecoveryGpuReset = 1;
inline constexpr unsigned kRecoveryNodeReboot = 2;
inline constexpr unsigned kRecoveryDrainP2p = 3;
inline constexpr unsigned kRecoveryDrainAndReset = 4;

// Bits of the clocks event reasons.
inline constexpr unsigned long long kClocksGpuIdle = 0x1;
inline constexpr unsigned long long kClocksApplicationsSetting = 0x2;
inline constexpr unsigned long long kClocksSwPowerCap = 0x4;
inline constexpr unsigned long long kClocksHwSlowdown = 0x8;
inline constexpr unsigned long long kClocksSyncBoost = 0x10;
inline constexpr unsigned long long kClocksSwThermalSlowdown = 0x20;
inline constexpr unsigned long long kClocksHwThermalSlowdown = 0x40;
inline constexpr unsigned long long kClocksHwPowerBrakeSlowdown = 0x80;
inline constexpr unsigned long long kClocksDisplaySetting = 0x100;

struct TemperatureV1 {
  unsigned version;
  unsigned sensor;  // 0: the GPU
  int temperature;
};
static_assert(sizeof(TemperatureV1) == 12);
inline constexpr unsigned kTemperatureV1 = VersionWord<TemperatureV1>(1);

struct MarginTemperatureV1 {
  unsigned version;
  int margin;  // degrees to the highest in operation
};
static_assert(sizeof(MarginTemperatureV1) == 8);
inline constexpr unsigned kMarginTemperatureV1 = VersionWord<MarginTemperatureV1>(1);

// Banks by how many rows are left to remap to.
struct RowRemapperHistogram {
  unsigned max;
  unsigned high;
  unsigned partial;
  unsigned low;
  unsigned none;
};
static_assert(sizeof(RowRemapperHistogram) == 20);

struct EccSramErrorStatusV1 {
  unsigned version;
  unsigned long long aggregate_uncorrectable_parity;
  unsigned long long aggregate_uncorrectable_sec_ded;
  unsigned long long aggregate_correctable;
  unsigned long long volatile_uncorrectable_parity;
  unsigned long long volatile_uncorrectable_sec_ded;
  unsigned long long volatile_correctable;
  unsigned long long aggregate_uncorrectable_l2;
  unsigned long long aggregate_uncorrectable_sm;
  unsigned long long aggregate_uncorrectable_pcie;
  unsigned long long aggregate_uncorrectable_microcontroller;
  unsigned long long aggregate_uncorrectable_other;
  unsigned threshold_exceeded;
};
static_assert(sizeof(EccSramErrorStatusV1) == 104 &&
              offsetof(EccSramErrorStatusV1, threshold_exceeded) == 96);
inline constexpr unsigned kEccSramErrorStatusV1 = VersionWord<EccSramErrorStatusV1>(1);

struct ViolationTime {
  unsigned long long reference_time;  // microseconds
  unsigned long long violation_time;  // nanoseconds
};
static_assert(sizeof(ViolationTime) == 16);

struct Sample {
  unsigned long long time_stamp;  // microseconds since the epoch
  Value value;
};
static_assert(sizeof(Sample) == 16);

// nvmlDeviceGetUnrepairableMemoryFlag_v1 (Hopper and later); the header gives it no version word.
struct UnrepairableMemoryStatus {
  unsigned unrepairable;  // 1: the memory has faults that nothing can take out of use
};
static_assert(sizeof(UnrepairableMemoryStatus) == 4);

// Repairs that wait for a reset (nvmlDeviceGetRepairStatus).
struct RepairStatusV1 {
  unsigned version;
  unsigned channel_pending;
  unsigned tpc_pending;
};
static_assert(sizeof(RepairStatusV1) == 12);
inline constexpr unsigned kRepairStatusV1 = VersionWord<RepairStatusV1>(1);

// The number that a GPU has for life (nvmlDeviceGetPdi).
struct PdiV1 {
  unsigned version;
  unsigned long long value;
};
static_assert(sizeof(PdiV1) == 16);
inline constexpr unsigned kPdiV1 = VersionWord<PdiV1>(1);

struct ConfComputeMemorySizes {
  unsigned long long protected_kib;
  unsigned long long unprotected_kib;
};
static_assert(sizeof(ConfComputeMemorySizes) == 16);

struct ConfComputeKeyRotationThreshold {
  unsigned version;
  unsigned long long attacker_advantage;
};
static_assert(sizeof(ConfComputeKeyRotationThreshold) == 16);
inline constexpr unsigned kConfComputeKeyRotationThresholdV1 =
    VersionWord<ConfComputeKeyRotationThreshold>(1);

struct FrameCaptureStats {
  unsigned sessions;
  unsigned fps;
  unsigned latency;
};
static_assert(sizeof(FrameCaptureStats) == 12);

// Where a GPU is in its rack (nvmlDeviceGetPlatformInfo). Version 1 has the same bytes.
struct PlatformInfoV2 {
  unsigned version;
  unsigned char ib_guid[16];                // Blackwell: the first eight bytes
  unsigned char chassis_serial_number[16];  // all 0xff: not known
  unsigned char slot_number;                // in the chassis, switches counted; 0xff: not known
  unsigned char tray_index;                 // among the compute trays; 0xff: not known
  unsigned char host_id;
  unsigned char peer_type;  // of the NVLinks' far ends
  unsigned char module_id;
};
static_assert(sizeof(PlatformInfoV2) == 44 && offsetof(PlatformInfoV2, slot_number) == 36);
inline constexpr unsigned kPlatformInfoV2 = VersionWord<PlatformInfoV2>(2);
inline constexpr unsigned char kPlatformUnknown = 0xff;

// One port register of an NVLink (nvmlDeviceReadPRMCounters_v1, Blackwell and later).
struct PortCounter {
  unsigned counter_id;  // port_counter::*
  unsigned local_port;
  Return status;
  unsigned value_type;
  Value value;
};
static_assert(sizeof(PortCounter) == 24 && offsetof(PortCounter, value) == 16);
struct PortCounterList {
  unsigned count;
  PortCounter* counters;
};
static_assert(sizeof(PortCounterList) == 16);

// nvmlPRMCounterId_t
namespace port_counter {
inline constexpr unsigned kLinkDownEvents = 1;
inline constexpr unsigned kSuccessfulRecoveryEvents = 2;
inline constexpr unsigned kTotalSuccessfulRecoveries = 101;
inline constexpr unsigned kTimeSinceLastRecovery = 102;
inline constexpr unsigned kTimeBetweenLastTwoRecoveries = 103;
inline constexpr unsigned kPortXmitWait = 201;
inline constexpr unsigned kReceivedCodes = 301;
inline constexpr unsigned kSyncEvents = 307;
inline constexpr unsigned kOperationalRecovery = 1001;
}  // namespace port_counter

// nvmlGpuFabricInfo_v2_t::healthMask: answers of two bits, and one of four.
namespace fabric_health {
inline constexpr unsigned kTrue = 1;  // of the answers of two bits; 2 is false, 0 not supported
inline constexpr unsigned kFalse = 2;
inline constexpr unsigned kDegradedBandwidth = 0;  // their first bits
inline constexpr unsigned kRouteRecovery = 2;
inline constexpr unsigned kRouteUnhealthy = 4;
inline constexpr unsigned kAccessTimeoutRecovery = 6;
inline constexpr unsigned kIncorrectConfiguration = 8;  // four bits: 0 not supported
inline constexpr unsigned kConfigurationCorrect = 1;
// healthSummary, from version 3 on
inline constexpr unsigned char kHealthy = 1;
inline constexpr unsigned char kUnhealthy = 2;
inline constexpr unsigned char kLimitedCapacity = 3;
}  // namespace fabric_health

struct ConfComputeSystemCaps {
  unsigned cpu;
  unsigned gpus;  // 1: capable
};
static_assert(sizeof(ConfComputeSystemCaps) == 8);

struct ConfComputeSystemState {
  unsigned environment;
  unsigned feature;  // 1: enabled
  unsigned dev_tools_mode;
};
static_assert(sizeof(ConfComputeSystemState) == 12);

struct SystemConfComputeSettingsV1 {
  unsigned version;
  unsigned environment;
  unsigned feature;
  unsigned dev_tools_mode;
  unsigned multi_gpu_mode;
};
static_assert(sizeof(SystemConfComputeSettingsV1) == 20);
inline constexpr unsigned kSystemConfComputeSettingsV1 =
    VersionWord<SystemConfComputeSettingsV1>(1);

struct SystemDriverBranchInfoV1 {
  unsigned version;
  char branch[kVersionBufferSize];
};
static_assert(sizeof(SystemDriverBranchInfoV1) == 84);
inline constexpr unsigned kSystemDriverBranchInfoV1 = VersionWord<SystemDriverBranchInfoV1>(1);

struct PciInfoExtV1 {
  unsigned version;
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned pci_device_id;
  unsigned pci_subsystem_id;
  unsigned base_class;
  unsigned sub_class;
  char bus_id[kPciBusIdBufferSize];
};
static_assert(sizeof(PciInfoExtV1) == 64);
inline constexpr unsigned kPciInfoExtV1 = VersionWord<PciInfoExtV1>(1);

// What vGPU software licenses there are (nvmlDeviceGetGridLicensableFeatures_v4).
struct GridLicenseExpiry {
  unsigned year;
  unsigned short month;
  unsigned short day;
  unsigned short hour;
  unsigned short minute;
  unsigned short second;
  unsigned char status;
};
struct GridLicensableFeature {
  unsigned code;   // 1: virtual GPU
  unsigned state;  // 0: not licensed
  char license_info[128];
  char product_name[128];
  unsigned enabled;
  GridLicenseExpiry expiry;
};
static_assert(sizeof(GridLicenseExpiry) == 16 && sizeof(GridLicensableFeature) == 284);
struct GridLicensableFeatures {
  int is_supported;
  unsigned count;
  GridLicensableFeature features[3];
};
static_assert(sizeof(GridLicensableFeatures) == 860);
inline constexpr unsigned kGridFeatureVgpu = 1;

// GPU performance monitoring (GPM): two samples, then metrics of the time between them.
using GpmSample = void*;

struct GpmMetric {
  unsigned metric_id;
  Return nvml_return;
  double value;
  struct {
    const char* short_name;
    const char* long_name;
    const char* unit;
  } info;
};
static_assert(sizeof(GpmMetric) == 40 && offsetof(GpmMetric, value) == 8);

// The array is as long as the highest metric of the caller's header; only `metric_count` of it
// count.
struct GpmMetricsGet {
  unsigned version;  // kGpmVersion
  unsigned metric_count;
  GpmSample first;
  GpmSample second;
  GpmMetric metrics[1];
};
static_assert(offsetof(GpmMetricsGet, metrics) == 24);

struct GpmSupport {
  unsigned version;  // kGpmVersion
  unsigned is_supported;
};
static_assert(sizeof(GpmSupport) == 8);
inline constexpr unsigned kGpmVersion = 1;

// NVML_GPM_METRIC_*
namespace gpm {
inline constexpr unsigned kGraphicsUtil = 1;
inline constexpr unsigned kSmUtil = 2;
inline constexpr unsigned kSmOccupancy = 3;
inline constexpr unsigned kIntegerUtil = 4;
inline constexpr unsigned kAnyTensorUtil = 5;
inline constexpr unsigned kDfmaTensorUtil = 6;
inline constexpr unsigned kHmmaTensorUtil = 7;
inline constexpr unsigned kDmmaTensorUtil = 8;
inline constexpr unsigned kImmaTensorUtil = 9;
inline constexpr unsigned kDramBandwidthUtil = 10;
inline constexpr unsigned kFp64Util = 11;
inline constexpr unsigned kFp32Util = 12;
inline constexpr unsigned kFp16Util = 13;
inline constexpr unsigned kPcieTxPerSec = 20;  // MiB/s, also below
inline constexpr unsigned kPcieRxPerSec = 21;
inline constexpr unsigned kNvdec0Util = 30;  // to 37
inline constexpr unsigned kNvjpg0Util = 40;  // to 47
inline constexpr unsigned kNvofa0Util = 50;  // to 51
inline constexpr unsigned kNvLinkTotalRxPerSec = 60;
inline constexpr unsigned kNvLinkTotalTxPerSec = 61;
inline constexpr unsigned kNvLinkL0RxPerSec = 62;  // then L0 TX, L1 RX, ... L17 TX
inline constexpr unsigned kNvLinkL17TxPerSec = 97;
inline constexpr unsigned kSmCyclesElapsed =
    248;  // counters since the driver was loaded, also below
inline constexpr unsigned kSmCyclesActive = 249;
inline constexpr unsigned kPcieTx = 255;
inline constexpr unsigned kPcieRx = 256;
inline constexpr unsigned kFp16CyclesActive = 260;
inline constexpr unsigned kMetricMax = 333;
}  // namespace gpm

}  // namespace pitcrew::nvml::abi
