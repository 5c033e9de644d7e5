// An NVML library from before MIG, events with instances, and fabric: one GPU, few functions.
#include <cstdio>

#include "nvml/abi.h"

using namespace pitcrew::nvml::abi;

namespace {
int gpu = 0;
}  // namespace

extern "C" {

Return nvmlInit_v2() { return kSuccess; }
Return nvmlShutdown() { return kSuccess; }
Return nvmlSystemGetDriverVersion(char* version, unsigned length) {
  std::snprintf(version, length, "390.157");
  return kSuccess;
}
Return nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 1;
  return kSuccess;
}
Return nvmlDeviceGetHandleByIndex_v2(unsigned, Device* device) {
  *device = &gpu;
  return kSuccess;
}
Return nvmlDeviceGetHandleByUUID(const char*, Device* device) {
  *device = &gpu;
  return kSuccess;
}
Return nvmlDeviceGetName(Device, char* name, unsigned length) {
  std::snprintf(name, length, "Tesla K80");
  return kSuccess;
}
Return nvmlDeviceGetUUID(Device, char* uuid, unsigned length) {
  std::snprintf(uuid, length, "GPU-old");
  return kSuccess;
}
Return nvmlDeviceGetMinorNumber(Device, unsigned* minor) {
  *minor = 0;
  return kSuccess;
}
Return nvmlDeviceGetCudaComputeCapability(Device, int* major, int* minor) {
  *major = 3;
  *minor = 7;
  return kSuccess;
}
Return nvmlDeviceGetPciInfo_v3(Device, PciInfo* pci) {
  std::snprintf(pci->bus_id, sizeof(pci->bus_id), "00000000:05:00.0");
  pci->pci_device_id = 0x102d10de;
  return kSuccess;
}
Return nvmlDeviceGetMemoryInfo(Device, Memory*) { return kUnknown; }

}  // extern "C"
