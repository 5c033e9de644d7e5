// NVML's binary interface as far as Pitcrew uses it: structures, constants and the list of
// functions with their parameters. Shared by the façade (which looks the functions up) and by the
// simulated library (which defines them). Sizes and offsets: feature-discovery.md sections 13 and
// 14; checked below at compile time (feature-discovery.md #28).
#pragma once

#include <cstddef>
#include <cstdint>

namespace pitcrew::nvml::abi {

using Return = int;

// feature-discovery.md section 14, "return codes".
inline constexpr Return kSuccess = 0;
inline constexpr Return kUninitialized = 1;
inline constexpr Return kInvalidArgument = 2;
inline constexpr Return kNotSupported = 3;
inline constexpr Return kNoPermission = 4;
inline constexpr Return kAlreadyInitialized = 5;
inline constexpr Return kNotFound = 6;
inline constexpr Return kInsufficientSize = 7;
inline constexpr Return kInsufficientPower = 8;
inline constexpr Return kDriverNotLoaded = 9;
inline constexpr Return kTimeout = 10;
inline constexpr Return kIrqIssue = 11;
inline constexpr Return kLibraryNotFound = 12;
inline constexpr Return kFunctionNotFound = 13;
inline constexpr Return kCorruptedInforom = 14;
inline constexpr Return kGpuIsLost = 15;
inline constexpr Return kResetRequired = 16;
inline constexpr Return kOperatingSystem = 17;
inline constexpr Return kLibRmVersionMismatch = 18;
inline constexpr Return kInUse = 19;
inline constexpr Return kMemory = 20;
inline constexpr Return kNoData = 21;
inline constexpr Return kVgpuEccNotSupported = 22;
inline constexpr Return kInsufficientResources = 23;
inline constexpr Return kFreqNotSupported = 24;
inline constexpr Return kArgumentVersionMismatch = 25;
inline constexpr Return kDeprecated = 26;
inline constexpr Return kNotReady = 27;
inline constexpr Return kGpuNotFound = 28;
inline constexpr Return kInvalidState = 29;
inline constexpr Return kResetTypeNotSupported = 30;
inline constexpr Return kUnknown = 999;

inline constexpr unsigned kNameBufferSize = 96;
inline constexpr unsigned kUuidBufferSize = 96;
inline constexpr unsigned kVersionBufferSize = 80;
inline constexpr unsigned kPciBusIdBufferSize = 32;
inline constexpr unsigned kNvLinkCount = 36;  // link indices that upstream walks
inline constexpr unsigned kNoInstance = 0xffffffff;

inline constexpr unsigned kFeatureDisabled = 0;
inline constexpr unsigned kFeatureEnabled = 1;

inline constexpr unsigned kComputeEngineProfileShared = 0;

inline constexpr unsigned long long kEventSingleBitEcc = 0x1;
inline constexpr unsigned long long kEventDoubleBitEcc = 0x2;
inline constexpr unsigned long long kEventPState = 0x4;
inline constexpr unsigned long long kEventXid = 0x8;

// nvmlClockType_t
inline constexpr unsigned kClockSm = 1;
inline constexpr unsigned kClockMemory = 2;
inline constexpr unsigned kClockVideo = 3;

// Opaque handles.
using Device = void*;
using GpuInstance = void*;
using ComputeInstance = void*;
using EventSet = void*;

struct PciInfo {
  char bus_id_legacy[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned pci_device_id;  // device << 16 | vendor
  unsigned pci_subsystem_id;
  char bus_id[kPciBusIdBufferSize];
};
static_assert(sizeof(PciInfo) == 68 && offsetof(PciInfo, domain) == 16 &&
              offsetof(PciInfo, pci_device_id) == 28 && offsetof(PciInfo, bus_id) == 36);

struct Memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};
static_assert(sizeof(Memory) == 24 && offsetof(Memory, used) == 16);

struct MemoryV2 {
  unsigned version;
  unsigned long long total;
  unsigned long long reserved;
  unsigned long long free;
  unsigned long long used;
};
static_assert(sizeof(MemoryV2) == 40);

struct Bar1Memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};
static_assert(sizeof(Bar1Memory) == 24);

struct Utilization {
  unsigned gpu;
  unsigned memory;
};
static_assert(sizeof(Utilization) == 8);

struct DeviceAttributes {
  unsigned multiprocessor_count;
  unsigned shared_copy_engine_count;
  unsigned shared_decoder_count;
  unsigned shared_encoder_count;
  unsigned shared_jpeg_count;
  unsigned shared_ofa_count;
  unsigned gpu_instance_slice_count;
  unsigned compute_instance_slice_count;
  unsigned long long memory_size_mb;
};
static_assert(sizeof(DeviceAttributes) == 40 && offsetof(DeviceAttributes, memory_size_mb) == 32);

struct GpuInstanceProfileInfo {
  unsigned id;
  unsigned is_p2p_supported;
  unsigned slice_count;
  unsigned instance_count;
  unsigned multiprocessor_count;
  unsigned copy_engine_count;
  unsigned decoder_count;
  unsigned encoder_count;
  unsigned jpeg_count;
  unsigned ofa_count;
  unsigned long long memory_size_mb;
};
static_assert(sizeof(GpuInstanceProfileInfo) == 48 &&
              offsetof(GpuInstanceProfileInfo, memory_size_mb) == 40);

struct GpuInstanceProfileInfoV2 {
  unsigned version;
  unsigned id;
  unsigned is_p2p_supported;
  unsigned slice_count;
  unsigned instance_count;
  unsigned multiprocessor_count;
  unsigned copy_engine_count;
  unsigned decoder_count;
  unsigned encoder_count;
  unsigned jpeg_count;
  unsigned ofa_count;
  unsigned long long memory_size_mb;
  char name[kNameBufferSize];
};
static_assert(sizeof(GpuInstanceProfileInfoV2) == 152);
inline constexpr unsigned kGpuInstanceProfileInfoV2 = 0x02000098;

struct GpuInstanceProfileInfoV3 {
  unsigned version;
  unsigned id;
  unsigned slice_count;
  unsigned instance_count;
  unsigned multiprocessor_count;
  unsigned copy_engine_count;
  unsigned decoder_count;
  unsigned encoder_count;
  unsigned jpeg_count;
  unsigned ofa_count;
  unsigned long long memory_size_mb;
  char name[kNameBufferSize];
  unsigned capabilities;
};
static_assert(sizeof(GpuInstanceProfileInfoV3) == 152);
inline constexpr unsigned kGpuInstanceProfileInfoV3 = 0x03000098;

struct InstancePlacement {
  unsigned start;
  unsigned size;
};
static_assert(sizeof(InstancePlacement) == 8);

struct GpuInstanceInfo {
  Device device;
  unsigned id;
  unsigned profile_id;
  InstancePlacement placement;
};
static_assert(sizeof(GpuInstanceInfo) == 24 && offsetof(GpuInstanceInfo, placement) == 16);

struct ComputeInstanceProfileInfo {
  unsigned id;
  unsigned slice_count;
  unsigned instance_count;
  unsigned multiprocessor_count;
  unsigned shared_copy_engine_count;
  unsigned shared_decoder_count;
  unsigned shared_encoder_count;
  unsigned shared_jpeg_count;
  unsigned shared_ofa_count;
};
static_assert(sizeof(ComputeInstanceProfileInfo) == 36);

struct ComputeInstanceProfileInfoV2 {
  unsigned version;
  ComputeInstanceProfileInfo info;
  char name[kNameBufferSize];
};
static_assert(sizeof(ComputeInstanceProfileInfoV2) == 136);
inline constexpr unsigned kComputeInstanceProfileInfoV2 = 0x02000088;

struct ComputeInstanceProfileInfoV3 {
  ComputeInstanceProfileInfoV2 v2;
  unsigned capabilities;
};
static_assert(sizeof(ComputeInstanceProfileInfoV3) == 140);
inline constexpr unsigned kComputeInstanceProfileInfoV3 = 0x0300008c;

struct ComputeInstanceInfo {
  Device device;
  GpuInstance gpu_instance;
  unsigned id;
  unsigned profile_id;
  InstancePlacement placement;
};
static_assert(sizeof(ComputeInstanceInfo) == 32 && offsetof(ComputeInstanceInfo, placement) == 24);

struct EventData {
  Device device;
  unsigned long long event_type;
  unsigned long long event_data;
  unsigned gpu_instance_id;
  unsigned compute_instance_id;
};
static_assert(sizeof(EventData) == 32 && offsetof(EventData, gpu_instance_id) == 24);

struct GpuFabricInfo {
  unsigned char cluster_uuid[16];
  Return status;
  unsigned clique_id;
  unsigned char state;
};
static_assert(sizeof(GpuFabricInfo) == 28 && offsetof(GpuFabricInfo, state) == 24);

struct GpuFabricInfoV2 {
  unsigned version;
  unsigned char cluster_uuid[16];
  Return status;
  unsigned clique_id;
  unsigned char state;
  unsigned health_mask;
};
static_assert(sizeof(GpuFabricInfoV2) == 36 && offsetof(GpuFabricInfoV2, state) == 28 &&
              offsetof(GpuFabricInfoV2, health_mask) == 32);
inline constexpr unsigned kGpuFabricInfoV2 = 0x02000024;

struct GpuFabricInfoV3 {
  GpuFabricInfoV2 v2;
  unsigned char health_summary;
};
static_assert(sizeof(GpuFabricInfoV3) == 40 && offsetof(GpuFabricInfoV3, health_summary) == 36);
inline constexpr unsigned kGpuFabricInfoV3 = 0x03000028;

struct AddressingMode {
  unsigned version;
  unsigned value;  // 0 none, 1 HMM, 2 ATS
};
static_assert(sizeof(AddressingMode) == 8);
inline constexpr unsigned kAddressingModeV1 = 0x01000008;
inline constexpr unsigned kAddressingModeAts = 2;

// nvmlProcessInfo_t of the _v2 and _v3 calls; the unversioned calls have the first two fields.
struct ProcessInfo {
  unsigned pid;
  unsigned long long used_gpu_memory;
  unsigned gpu_instance_id;
  unsigned compute_instance_id;
};
static_assert(sizeof(ProcessInfo) == 24);

struct ProcessInfoV1 {
  unsigned pid;
  unsigned long long used_gpu_memory;
};
static_assert(sizeof(ProcessInfoV1) == 16);

struct ProcessUtilizationSample {
  unsigned pid;
  unsigned long long time_stamp;  // microseconds since the epoch
  unsigned sm_util;
  unsigned mem_util;
  unsigned enc_util;
  unsigned dec_util;
};
static_assert(sizeof(ProcessUtilizationSample) == 32);

struct EccErrorCounts {
  unsigned long long l1_cache;
  unsigned long long l2_cache;
  unsigned long long device_memory;
  unsigned long long register_file;
};
static_assert(sizeof(EccErrorCounts) == 32);

}  // namespace pitcrew::nvml::abi
