// Memory of the simulated GPUs, which is the host's.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "simulation/cuda/driver.h"
#include "simulation/cuda/mps.h"

using namespace pitcrew::simulation;
using namespace pitcrew::simulation::cuda;

CUDA_API Result cuMemAlloc_v2(DevicePointer* pointer, std::size_t size) {
  Driver& driver = TheDriver();
  const std::lock_guard guard(driver.mutex);
  if (Current() == nullptr) return kInvalidContext;
  if (pointer == nullptr || size == 0) return kInvalidValue;
  const int device = Current()->device;
  View view;
  if (const Result result = Look(driver, device, view); result != kSuccess) return result;
  if (const Result result = MayUse(driver, view); result != kSuccess) return result;
  const std::uint64_t allowed = AllowedMemory(driver, device, view);
  const std::uint64_t used = UsedHere(driver, device);
  if (size > allowed || used > allowed - size) return kOutOfMemory;
  void* memory = std::malloc(size);
  if (memory == nullptr) return kOutOfMemory;
  *pointer = reinterpret_cast<DevicePointer>(memory);
  driver.allocations[*pointer] = {size, device};
  Announce(driver, device, true);
  return kSuccess;
}
CUDA_API Result cuMemAlloc(DevicePointer* pointer, std::size_t size) {
  return cuMemAlloc_v2(pointer, size);
}

CUDA_API Result cuMemFree_v2(DevicePointer pointer) {
  Driver& driver = TheDriver();
  const std::lock_guard guard(driver.mutex);
  const auto found = driver.allocations.find(pointer);
  if (found == driver.allocations.end()) return kInvalidValue;
  const int device = found->second.device;
  driver.allocations.erase(found);
  std::free(Host(pointer));
  Announce(driver, device, true);
  return kSuccess;
}
CUDA_API Result cuMemFree(DevicePointer pointer) { return cuMemFree_v2(pointer); }

CUDA_API Result cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  Driver& driver = TheDriver();
  const std::lock_guard guard(driver.mutex);
  if (Current() == nullptr) return kInvalidContext;
  if (free == nullptr || total == nullptr) return kInvalidValue;
  View view;
  if (const Result result = Look(driver, Current()->device, view); result != kSuccess)
    return result;
  *total = TotalMemory(view);
  const int device = Current()->device;
  const std::uint64_t allowed = AllowedMemory(driver, device, view);
  *free = allowed - std::min(allowed, UsedHere(driver, device));
  return kSuccess;
}

CUDA_API Result cuMemcpyHtoD_v2(DevicePointer to, const void* from, std::size_t size) {
  Driver& driver = TheDriver();
  const std::lock_guard guard(driver.mutex);
  if (Current() == nullptr) return kInvalidContext;
  if (from == nullptr || !IsAllocated(driver, to, size)) return kInvalidValue;
  std::memcpy(Host(to), from, size);
  return kSuccess;
}
CUDA_API Result cuMemcpyHtoD(DevicePointer to, const void* from, std::size_t size) {
  return cuMemcpyHtoD_v2(to, from, size);
}

CUDA_API Result cuMemcpyDtoH_v2(void* to, DevicePointer from, std::size_t size) {
  Driver& driver = TheDriver();
  const std::lock_guard guard(driver.mutex);
  if (Current() == nullptr) return kInvalidContext;
  if (to == nullptr || !IsAllocated(driver, from, size)) return kInvalidValue;
  std::memcpy(to, Host(from), size);
  return kSuccess;
}
CUDA_API Result cuMemcpyDtoH(void* to, DevicePointer from, std::size_t size) {
  return cuMemcpyDtoH_v2(to, from, size);
}
