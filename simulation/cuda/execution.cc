// Contexts, modules and the one kernel.
#include <cstring>
#include <string>

#include "simulation/cuda/driver.h"
#include "simulation/cuda/mps.h"

using namespace pitcrew::simulation;
using namespace pitcrew::simulation::cuda;

namespace {

// vectorAdd(const float* a, const float* b, float* c, int n): c[i] = a[i] + b[i].
Result RunVectorAdd(const Driver& driver, std::uint64_t threads, void** parameters) {
  if (parameters == nullptr) return kInvalidValue;
  DevicePointer pointers[3];
  for (int i = 0; i < 3; ++i) std::memcpy(&pointers[i], parameters[i], sizeof(pointers[i]));
  int count = 0;
  std::memcpy(&count, parameters[3], sizeof(count));
  if (count <= 0) return kSuccess;
  const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(float);
  for (const auto pointer : pointers) {
    if (!IsAllocated(driver, pointer, bytes)) return kIllegalAddress;
  }
  const auto* a = static_cast<const float*>(Host(pointers[0]));
  const auto* b = static_cast<const float*>(Host(pointers[1]));
  auto* c = static_cast<float*>(Host(pointers[2]));
  // A grid that is too small leaves the rest untouched, as on a GPU.
  for (std::uint64_t i = 0; i < threads && i < static_cast<std::uint64_t>(count); ++i) {
    c[i] = a[i] + b[i];
  }
  return kSuccess;
}

}  // namespace

CUDA_API Result cuCtxCreate_v2(void** context, unsigned, int device) {
  Driver& driver = TheDriver();
  const std::lock_guard guard(driver.mutex);
  View view;
  if (context == nullptr) return kInvalidValue;
  if (const Result result = Look(driver, device, view); result != kSuccess) return result;
  if (view.gpu->compute_mode == 2) return kDeviceUnavailable;  // prohibited
  if (const Result result = MayUse(driver, view); result != kSuccess) return result;
  auto made = std::make_unique<Context>(Context{device});
  if (!current_contexts.Push(made.get())) return kOutOfMemory;
  *context = made.get();
  driver.contexts[made.get()] = std::move(made);
  Announce(driver, device, true);
  return kSuccess;
}
CUDA_API Result cuCtxCreate(void** context, unsigned flags, int device) {
  return cuCtxCreate_v2(context, flags, device);
}

CUDA_API Result cuCtxDestroy_v2(void* context) {
  Driver& driver = TheDriver();
  const std::lock_guard guard(driver.mutex);
  const auto found = driver.contexts.find(context);
  if (found == driver.contexts.end()) return kInvalidContext;
  const int device = found->second->device;
  current_contexts.Erase(found->second.get());
  driver.contexts.erase(found);
  Announce(driver, device, false);
  return kSuccess;
}
CUDA_API Result cuCtxDestroy(void* context) { return cuCtxDestroy_v2(context); }

CUDA_API Result cuCtxSetCurrent(void* context) {
  Driver& driver = TheDriver();
  const std::lock_guard guard(driver.mutex);
  const auto found = driver.contexts.find(context);
  if (context != nullptr && found == driver.contexts.end()) return kInvalidContext;
  current_contexts.Pop();
  if (context == nullptr) return kSuccess;
  return current_contexts.Push(found->second.get()) ? kSuccess : kOutOfMemory;
}

CUDA_API Result cuCtxGetCurrent(void** context) {
  if (context == nullptr) return kInvalidValue;
  *context = Current();
  return kSuccess;
}

// Launches run to their end before they return.
CUDA_API Result cuCtxSynchronize() { return Current() == nullptr ? kInvalidContext : kSuccess; }

// Takes PTX text; a compiled binary (cubin, fatbin) cannot be looked into.
CUDA_API Result cuModuleLoadData(void** module, const void* image) {
  Driver& driver = TheDriver();
  const std::lock_guard guard(driver.mutex);
  if (Current() == nullptr) return kInvalidContext;
  if (module == nullptr || image == nullptr) return kInvalidValue;
  const std::string text = static_cast<const char*>(image);
  if (text.find(".version") == std::string::npos) return kInvalidImage;
  auto made = std::make_unique<Module>(Module{text});
  *module = made.get();
  driver.modules[made.get()] = std::move(made);
  return kSuccess;
}
CUDA_API Result cuModuleLoadDataEx(void** module, const void* image, unsigned, int*, void**) {
  return cuModuleLoadData(module, image);
}

CUDA_API Result cuModuleUnload(void* module) {
  Driver& driver = TheDriver();
  const std::lock_guard guard(driver.mutex);
  return driver.modules.erase(module) != 0 ? kSuccess : kInvalidHandle;
}

CUDA_API Result cuModuleGetFunction(void** function, void* module, const char* name) {
  Driver& driver = TheDriver();
  const std::lock_guard guard(driver.mutex);
  const auto found = driver.modules.find(module);
  if (found == driver.modules.end()) return kInvalidHandle;
  if (function == nullptr || name == nullptr) return kInvalidValue;
  const std::string entry = std::string(".entry ") + name;
  if (found->second->image.find(entry) == std::string::npos) return kNotFound;
  auto made = std::make_unique<Function>(Function{name});
  *function = made.get();
  driver.functions[made.get()] = std::move(made);
  return kSuccess;
}

CUDA_API Result cuLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                               unsigned block_x, unsigned block_y, unsigned block_z, unsigned,
                               void*, void** parameters, void**) {
  Driver& driver = TheDriver();
  const std::lock_guard guard(driver.mutex);
  if (Current() == nullptr) return kInvalidContext;
  const auto found = driver.functions.find(function);
  if (found == driver.functions.end()) return kInvalidHandle;
  View view;
  if (const Result result = Look(driver, Current()->device, view); result != kSuccess)
    return result;
  const std::uint64_t block = std::uint64_t{block_x} * block_y * block_z;
  if (block == 0 || block > 1024 || grid_x == 0 || grid_y == 0 || grid_z == 0) return kInvalidValue;
  if (found->second->name != "vectorAdd") return kNotSupported;
  return RunVectorAdd(driver, block * grid_x * grid_y * grid_z, parameters);
}
