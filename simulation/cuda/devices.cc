// Initialisation, devices, error names.
#include <cstdio>
#include <cstring>

#include "gpu/mig_profile.h"
#include "simulation/cuda/driver.h"
#include "simulation/cuda/mps.h"
#include "simulation/state/discovery.h"

using namespace pitcrew::simulation;
using namespace pitcrew::simulation::cuda;

CUDA_API Result cuInit(unsigned flags) {
  if (flags != 0) return kInvalidValue;
  Driver& driver = TheDriver();
  const std::lock_guard guard(driver.mutex);
  if (driver.file) return kSuccess;
  auto file = StateFile::Open(FindStateFile(LibraryPath()));
  if (!file || !(*file)->UseDriver()) return kNoDevice;
  const auto node = (*file)->Snapshot();
  if (node->driver_loaded == 0) return kNoDevice;
  auto devices = ListDevices(*node);
  if (devices.empty()) return kNoDevice;
  driver.devices = std::move(devices);
  driver.mps = MpsClient::Connect();
  driver.file = *std::move(file);
  return kSuccess;
}

CUDA_API Result cuDriverGetVersion(int* version) {
  if (version == nullptr) return kInvalidValue;
  // Works before cuInit.
  const auto file = StateFile::Open(FindStateFile(LibraryPath()));
  if (!file) return kNoDevice;
  *version = static_cast<int>((*file)->Snapshot()->cuda_version);
  return kSuccess;
}

CUDA_API Result cuDeviceGetCount(int* count) {
  Driver& driver = TheDriver();
  const std::lock_guard guard(driver.mutex);
  if (!driver.file) return kNotInitialized;
  if (count == nullptr) return kInvalidValue;
  *count = static_cast<int>(driver.devices.size());
  return kSuccess;
}

CUDA_API Result cuDeviceGet(int* device, int ordinal) {
  Driver& driver = TheDriver();
  const std::lock_guard guard(driver.mutex);
  View view;
  if (device == nullptr) return kInvalidValue;
  if (const Result result = Look(driver, ordinal, view); result != kSuccess) return result;
  *device = ordinal;
  return kSuccess;
}

CUDA_API Result cuDeviceGetName(char* name, int length, int device) {
  Driver& driver = TheDriver();
  const std::lock_guard guard(driver.mutex);
  View view;
  if (name == nullptr || length <= 0) return kInvalidValue;
  if (const Result result = Look(driver, device, view); result != kSuccess) return result;
  std::string text = view.gpu->name;
  if (view.compute != nullptr) {
    const GpuProfile& profile = ProfileOf(*view.gpu, *view.instance);
    const auto mig =
        pitcrew::gpu::NameMigProfile(profile.index, ProfileOf(profile, *view.compute).index,
                                     profile.memory_mib, view.gpu->memory_total);
    if (mig) text += " MIG " + mig->Name();
  }
  std::snprintf(name, static_cast<std::size_t>(length), "%s", text.c_str());
  return kSuccess;
}

CUDA_API Result cuDeviceGetUuid_v2(unsigned char* uuid, int device) {
  Driver& driver = TheDriver();
  const std::lock_guard guard(driver.mutex);
  View view;
  if (uuid == nullptr) return kInvalidValue;
  if (const Result result = Look(driver, device, view); result != kSuccess) return result;
  const std::string text = view.compute != nullptr
                               ? MigUuid(*view.gpu, *view.instance, *view.compute)
                               : std::string(view.gpu->uuid);
  std::string digits;
  for (const char c : text.substr(4)) {
    if (c != '-') digits += c;
  }
  std::memset(uuid, 0, 16);
  for (std::size_t i = 0; i < 16 && 2 * i + 1 < digits.size(); ++i) {
    uuid[i] = static_cast<unsigned char>(std::stoul(digits.substr(2 * i, 2), nullptr, 16));
  }
  return kSuccess;
}
CUDA_API Result cuDeviceGetUuid(unsigned char* uuid, int device) {
  return cuDeviceGetUuid_v2(uuid, device);
}

CUDA_API Result cuDeviceTotalMem_v2(std::size_t* bytes, int device) {
  Driver& driver = TheDriver();
  const std::lock_guard guard(driver.mutex);
  View view;
  if (bytes == nullptr) return kInvalidValue;
  if (const Result result = Look(driver, device, view); result != kSuccess) return result;
  *bytes = TotalMemory(view);
  return kSuccess;
}
// The unversioned name is what feature discovery asks for on Tegra (feature-discovery.md section
// 10).
CUDA_API Result cuDeviceTotalMem(std::size_t* bytes, int device) {
  return cuDeviceTotalMem_v2(bytes, device);
}

CUDA_API Result cuDeviceGetAttribute(int* value, int attribute, int device) {
  Driver& driver = TheDriver();
  const std::lock_guard guard(driver.mutex);
  View view;
  if (value == nullptr) return kInvalidValue;
  if (const Result result = Look(driver, device, view); result != kSuccess) return result;
  const GpuState& gpu = *view.gpu;
  switch (attribute) {
    case 1:
      *value = 1024;
      return kSuccess;  // threads per block
    case 16:            // multiprocessors
      *value = static_cast<int>(AllowedMultiprocessors(
          driver, view.compute != nullptr
                      ? ProfileOf(ProfileOf(gpu, *view.instance), *view.compute).multiprocessors
                      : gpu.multiprocessors));
      return kSuccess;
    case 33:
      *value = static_cast<int>(gpu.pci_bus);
      return kSuccess;
    case 34:
      *value = static_cast<int>(gpu.pci_device);
      return kSuccess;
    case 50:
      *value = static_cast<int>(gpu.pci_domain);
      return kSuccess;
    case 75:
      *value = gpu.compute_major;
      return kSuccess;
    case 76:
      *value = gpu.compute_minor;
      return kSuccess;
    default:
      return kNotSupported;
  }
}

CUDA_API Result cuGetErrorName(Result code, const char** name) {
  if (name == nullptr) return kInvalidValue;
  switch (code) {
    case kSuccess:
      *name = "CUDA_SUCCESS";
      return kSuccess;
    case kInvalidValue:
      *name = "CUDA_ERROR_INVALID_VALUE";
      return kSuccess;
    case kOutOfMemory:
      *name = "CUDA_ERROR_OUT_OF_MEMORY";
      return kSuccess;
    case kNotInitialized:
      *name = "CUDA_ERROR_NOT_INITIALIZED";
      return kSuccess;
    case kDeviceUnavailable:
      *name = "CUDA_ERROR_DEVICE_UNAVAILABLE";
      return kSuccess;
    case kNoDevice:
      *name = "CUDA_ERROR_NO_DEVICE";
      return kSuccess;
    case kInvalidDevice:
      *name = "CUDA_ERROR_INVALID_DEVICE";
      return kSuccess;
    case kInvalidImage:
      *name = "CUDA_ERROR_INVALID_IMAGE";
      return kSuccess;
    case kInvalidContext:
      *name = "CUDA_ERROR_INVALID_CONTEXT";
      return kSuccess;
    case kInvalidHandle:
      *name = "CUDA_ERROR_INVALID_HANDLE";
      return kSuccess;
    case kNotFound:
      *name = "CUDA_ERROR_NOT_FOUND";
      return kSuccess;
    case kIllegalAddress:
      *name = "CUDA_ERROR_ILLEGAL_ADDRESS";
      return kSuccess;
    case kNotSupported:
      *name = "CUDA_ERROR_NOT_SUPPORTED";
      return kSuccess;
    case kMpsConnectionFailed:
      *name = "CUDA_ERROR_MPS_CONNECTION_FAILED";
      return kSuccess;
    case kUnknown:
      *name = "CUDA_ERROR_UNKNOWN";
      return kSuccess;
    default:
      *name = nullptr;
      return kInvalidValue;
  }
}
CUDA_API Result cuGetErrorString(Result code, const char** text) {
  return cuGetErrorName(code, text);
}
