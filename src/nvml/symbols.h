// NVML's functions as found in one loaded library. A missing symbol is a null pointer.
#pragma once

#include <dlfcn.h>

#include "nvml/abi_metrics.h"

namespace pitcrew::nvml {

// FUNCTION(symbol in the library, parameter types). Versioned names as upstream picks them
// (feature-discovery.md sections 11 and 12).
#define PITCREW_NVML_FUNCTIONS(FUNCTION)                                                          \
  FUNCTION(nvmlInit_v2, )                                                                         \
  FUNCTION(nvmlShutdown, )                                                                        \
  FUNCTION(nvmlSystemGetDriverVersion, char*, unsigned)                                           \
  FUNCTION(nvmlSystemGetNVMLVersion, char*, unsigned)                                             \
  FUNCTION(nvmlSystemGetCudaDriverVersion, int*)                                                  \
  FUNCTION(nvmlDeviceGetCount_v2, unsigned*)                                                      \
  FUNCTION(nvmlDeviceGetHandleByIndex_v2, unsigned, abi::Device*)                                 \
  FUNCTION(nvmlDeviceGetHandleByUUID, const char*, abi::Device*)                                  \
  FUNCTION(nvmlDeviceGetName, abi::Device, char*, unsigned)                                       \
  FUNCTION(nvmlDeviceGetUUID, abi::Device, char*, unsigned)                                       \
  FUNCTION(nvmlDeviceGetSerial, abi::Device, char*, unsigned)                                     \
  FUNCTION(nvmlDeviceGetMinorNumber, abi::Device, unsigned*)                                      \
  FUNCTION(nvmlDeviceGetBrand, abi::Device, unsigned*)                                            \
  FUNCTION(nvmlDeviceGetArchitecture, abi::Device, unsigned*)                                     \
  FUNCTION(nvmlDeviceGetCudaComputeCapability, abi::Device, int*, int*)                           \
  FUNCTION(nvmlDeviceGetPciInfo_v3, abi::Device, abi::PciInfo*)                                   \
  FUNCTION(nvmlDeviceGetMemoryInfo, abi::Device, abi::Memory*)                                    \
  FUNCTION(nvmlDeviceGetMemoryInfo_v2, abi::Device, abi::MemoryV2*)                               \
  FUNCTION(nvmlDeviceGetMemoryAffinity, abi::Device, unsigned, unsigned long*, unsigned)          \
  FUNCTION(nvmlDeviceGetAddressingMode, abi::Device, abi::AddressingMode*)                        \
  FUNCTION(nvmlDeviceGetGpuFabricInfo, abi::Device, abi::GpuFabricInfo*)                          \
  FUNCTION(nvmlDeviceGetGpuFabricInfoV, abi::Device, void*)                                       \
  FUNCTION(nvmlDeviceGetMigMode, abi::Device, unsigned*, unsigned*)                               \
  FUNCTION(nvmlDeviceGetMaxMigDeviceCount, abi::Device, unsigned*)                                \
  FUNCTION(nvmlDeviceGetMigDeviceHandleByIndex, abi::Device, unsigned, abi::Device*)              \
  FUNCTION(nvmlDeviceGetDeviceHandleFromMigDeviceHandle, abi::Device, abi::Device*)               \
  FUNCTION(nvmlDeviceGetGpuInstanceId, abi::Device, unsigned*)                                    \
  FUNCTION(nvmlDeviceGetComputeInstanceId, abi::Device, unsigned*)                                \
  FUNCTION(nvmlDeviceGetAttributes_v2, abi::Device, abi::DeviceAttributes*)                       \
  FUNCTION(nvmlDeviceGetGpuInstanceById, abi::Device, unsigned, abi::GpuInstance*)                \
  FUNCTION(nvmlDeviceGetGpuInstanceProfileInfo, abi::Device, unsigned,                            \
           abi::GpuInstanceProfileInfo*)                                                          \
  FUNCTION(nvmlGpuInstanceGetInfo, abi::GpuInstance, abi::GpuInstanceInfo*)                       \
  FUNCTION(nvmlGpuInstanceGetComputeInstanceById, abi::GpuInstance, unsigned,                     \
           abi::ComputeInstance*)                                                                 \
  FUNCTION(nvmlGpuInstanceGetComputeInstanceProfileInfo, abi::GpuInstance, unsigned, unsigned,    \
           abi::ComputeInstanceProfileInfo*)                                                      \
  FUNCTION(nvmlComputeInstanceGetInfo_v2, abi::ComputeInstance, abi::ComputeInstanceInfo*)        \
  FUNCTION(nvmlDeviceGetTopologyCommonAncestor, abi::Device, abi::Device, unsigned*)              \
  FUNCTION(nvmlDeviceGetNvLinkState, abi::Device, unsigned, unsigned*)                            \
  FUNCTION(nvmlDeviceGetNvLinkRemotePciInfo_v2, abi::Device, unsigned, abi::PciInfo*)             \
  FUNCTION(nvmlEventSetCreate, abi::EventSet*)                                                    \
  FUNCTION(nvmlEventSetFree, abi::EventSet)                                                       \
  FUNCTION(nvmlEventSetWait_v2, abi::EventSet, abi::EventData*, unsigned)                         \
  FUNCTION(nvmlDeviceGetSupportedEventTypes, abi::Device, unsigned long long*)                    \
  FUNCTION(nvmlDeviceRegisterEvents, abi::Device, unsigned long long, abi::EventSet)              \
  FUNCTION(nvmlDeviceGetTemperature, abi::Device, unsigned, unsigned*)                            \
  FUNCTION(nvmlDeviceGetFanSpeed, abi::Device, unsigned*)                                         \
  FUNCTION(nvmlDeviceGetPowerUsage, abi::Device, unsigned*)                                       \
  FUNCTION(nvmlDeviceGetEnforcedPowerLimit, abi::Device, unsigned*)                               \
  FUNCTION(nvmlDeviceGetUtilizationRates, abi::Device, abi::Utilization*)                         \
  FUNCTION(nvmlDeviceGetPerformanceState, abi::Device, unsigned*)                                 \
  FUNCTION(nvmlDeviceGetClockInfo, abi::Device, unsigned, unsigned*)                              \
  FUNCTION(nvmlDeviceGetPersistenceMode, abi::Device, unsigned*)                                  \
  FUNCTION(nvmlDeviceGetDisplayActive, abi::Device, unsigned*)                                    \
  FUNCTION(nvmlDeviceGetComputeMode, abi::Device, unsigned*)                                      \
  FUNCTION(nvmlDeviceSetComputeMode, abi::Device, unsigned)                                       \
  FUNCTION(nvmlDeviceGetEccMode, abi::Device, unsigned*, unsigned*)                               \
  FUNCTION(nvmlDeviceGetTotalEccErrors, abi::Device, unsigned, unsigned, unsigned long long*)     \
  FUNCTION(nvmlDeviceGetFieldValues, abi::Device, int, abi::FieldValue*)                          \
  FUNCTION(nvmlDeviceGetRemappedRows, abi::Device, unsigned*, unsigned*, unsigned*, unsigned*)    \
  FUNCTION(nvmlDeviceGetComputeRunningProcesses_v3, abi::Device, unsigned*, abi::ProcessInfo*)    \
  FUNCTION(nvmlDeviceGetGraphicsRunningProcesses_v3, abi::Device, unsigned*, abi::ProcessInfo*)   \
  FUNCTION(nvmlSystemGetProcessName, unsigned, char*, unsigned)                                   \
  FUNCTION(nvmlDeviceSetMigMode, abi::Device, unsigned, abi::Return*)                             \
  FUNCTION(nvmlDeviceGetGpuInstancePossiblePlacements_v2, abi::Device, unsigned,                  \
           abi::InstancePlacement*, unsigned*)                                                    \
  FUNCTION(nvmlDeviceGetGpuInstances, abi::Device, unsigned, abi::GpuInstance*, unsigned*)        \
  FUNCTION(nvmlDeviceCreateGpuInstance, abi::Device, unsigned, abi::GpuInstance*)                 \
  FUNCTION(nvmlDeviceCreateGpuInstanceWithPlacement, abi::Device, unsigned,                       \
           const abi::InstancePlacement*, abi::GpuInstance*)                                      \
  FUNCTION(nvmlGpuInstanceDestroy, abi::GpuInstance)                                              \
  FUNCTION(nvmlGpuInstanceGetComputeInstances, abi::GpuInstance, unsigned, abi::ComputeInstance*, \
           unsigned*)                                                                             \
  FUNCTION(nvmlGpuInstanceCreateComputeInstance, abi::GpuInstance, unsigned,                      \
           abi::ComputeInstance*)                                                                 \
  FUNCTION(nvmlGpuInstanceCreateComputeInstanceWithPlacement, abi::GpuInstance, unsigned,         \
           const abi::InstancePlacement*, abi::ComputeInstance*)                                  \
  FUNCTION(nvmlComputeInstanceDestroy, abi::ComputeInstance)                                      \
  FUNCTION(nvmlDeviceGetMaxClockInfo, abi::Device, unsigned, unsigned*)                           \
  FUNCTION(nvmlDeviceGetApplicationsClock, abi::Device, unsigned, unsigned*)                      \
  FUNCTION(nvmlDeviceGetCurrentClocksEventReasons, abi::Device, unsigned long long*)              \
  FUNCTION(nvmlDeviceGetCurrentClocksThrottleReasons, abi::Device, unsigned long long*)           \
  FUNCTION(nvmlDeviceGetTemperatureThreshold, abi::Device, unsigned, unsigned*)                   \
  FUNCTION(nvmlDeviceGetMarginTemperature, abi::Device, abi::MarginTemperatureV1*)                \
  FUNCTION(nvmlDeviceGetPowerManagementLimit, abi::Device, unsigned*)                             \
  FUNCTION(nvmlDeviceGetPowerManagementLimitConstraints, abi::Device, unsigned*, unsigned*)       \
  FUNCTION(nvmlDeviceGetPowerManagementDefaultLimit, abi::Device, unsigned*)                      \
  FUNCTION(nvmlDeviceGetEncoderUtilization, abi::Device, unsigned*, unsigned*)                    \
  FUNCTION(nvmlDeviceGetDecoderUtilization, abi::Device, unsigned*, unsigned*)                    \
  FUNCTION(nvmlDeviceGetBAR1MemoryInfo, abi::Device, abi::Bar1Memory*)                            \
  FUNCTION(nvmlDeviceGetPcieReplayCounter, abi::Device, unsigned*)                                \
  FUNCTION(nvmlDeviceGetCurrPcieLinkGeneration, abi::Device, unsigned*)                           \
  FUNCTION(nvmlDeviceGetCurrPcieLinkWidth, abi::Device, unsigned*)                                \
  FUNCTION(nvmlDeviceGetMaxPcieLinkGeneration, abi::Device, unsigned*)                            \
  FUNCTION(nvmlDeviceGetMaxPcieLinkWidth, abi::Device, unsigned*)                                 \
  FUNCTION(nvmlDeviceGetNvLinkErrorCounter, abi::Device, unsigned, unsigned, unsigned long long*) \
  FUNCTION(nvmlDeviceGetMemoryErrorCounter, abi::Device, unsigned, unsigned, unsigned,            \
           unsigned long long*)                                                                   \
  FUNCTION(nvmlDeviceGetSramEccErrorStatus, abi::Device, abi::EccSramErrorStatusV1*)              \
  FUNCTION(nvmlDeviceGetRetiredPages, abi::Device, unsigned, unsigned*, unsigned long long*)      \
  FUNCTION(nvmlDeviceGetRowRemapperHistogram, abi::Device, abi::RowRemapperHistogram*)            \
  FUNCTION(nvmlDeviceGetGridLicensableFeatures_v4, abi::Device, abi::GridLicensableFeatures*)     \
  FUNCTION(nvmlDeviceGetInforomVersion, abi::Device, unsigned, char*, unsigned)                   \
  FUNCTION(nvmlDeviceGetInforomImageVersion, abi::Device, char*, unsigned)                        \
  FUNCTION(nvmlDeviceGetInforomConfigurationChecksum, abi::Device, unsigned*)                     \
  FUNCTION(nvmlDeviceValidateInforom, abi::Device)                                                \
  FUNCTION(nvmlDeviceGetVbiosVersion, abi::Device, char*, unsigned)                               \
  FUNCTION(nvmlDeviceGetP2PStatus, abi::Device, abi::Device, unsigned, unsigned*)                 \
  FUNCTION(nvmlDeviceGetProcessUtilization, abi::Device, abi::ProcessUtilizationSample*,          \
           unsigned*, unsigned long long)                                                         \
  FUNCTION(nvmlSystemGetConfComputeState, abi::ConfComputeSystemState*)                           \
  FUNCTION(nvmlDeviceGetCpuAffinity, abi::Device, unsigned, unsigned long*)                       \
  FUNCTION(nvmlDeviceGetVirtualizationMode, abi::Device, unsigned*)                               \
  FUNCTION(nvmlDeviceGetAutoBoostedClocksEnabled, abi::Device, unsigned*, unsigned*)              \
  FUNCTION(nvmlDeviceGetPlatformInfo, abi::Device, abi::PlatformInfoV2*)                          \
  FUNCTION(nvmlDeviceGetUnrepairableMemoryFlag_v1, abi::Device, abi::UnrepairableMemoryStatus*)   \
  FUNCTION(nvmlDeviceReadPRMCounters_v1, abi::Device, abi::PortCounterList*)                      \
  FUNCTION(nvmlGpmQueryDeviceSupport, abi::Device, abi::GpmSupport*)                              \
  FUNCTION(nvmlGpmSampleAlloc, abi::GpmSample*)                                                   \
  FUNCTION(nvmlGpmSampleFree, abi::GpmSample)                                                     \
  FUNCTION(nvmlGpmSampleGet, abi::Device, abi::GpmSample)                                         \
  FUNCTION(nvmlGpmMigSampleGet, abi::Device, unsigned, abi::GpmSample)                            \
  FUNCTION(nvmlGpmMetricsGet, abi::GpmMetricsGet*)

struct Symbols {
#define PITCREW_NVML_MEMBER(name, ...) abi::Return (*name)(__VA_ARGS__) = nullptr;
  PITCREW_NVML_FUNCTIONS(PITCREW_NVML_MEMBER)
#undef PITCREW_NVML_MEMBER

  // `library` is what dlopen returned.
  void Load(void* library) {
#define PITCREW_NVML_LOAD(function, ...) \
  function = reinterpret_cast<decltype(function)>(::dlsym(library, #function));
    PITCREW_NVML_FUNCTIONS(PITCREW_NVML_LOAD)
#undef PITCREW_NVML_LOAD
  }
};

}  // namespace pitcrew::nvml
