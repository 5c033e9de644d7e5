// Memory of the simulated GPUs, which is the host's.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "simulation/cuda/driver.h"
#include "simulation/cuda/mps.h"
#include "simulation/state/readings.h"

using namespace pitcrew::simulation;
using namespace pitcrew::simulation::cuda;

namespace {

// What one process may have of the host's memory: programs that test a GPU take all that is free
// there, for several GPUs at once.
std::uint64_t HostShare() {
  constexpr std::uint64_t kProcesses = 16;
  return static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) / kProcesses;
}

// Programs that fill memory take it in pieces. Who takes more than this at once wants to know
// whether the GPU has it: the host gives pages only to what is written.
constexpr std::uint64_t kMostFilled = std::uint64_t{4} << 30U;

bool HostHas(const Driver& driver, std::uint64_t size) {
  if (size > kMostFilled) return true;
  std::uint64_t sum = size;
  for (const auto& [pointer, allocation] : driver.allocations) {
    if (allocation.size <= kMostFilled) sum += allocation.size;
  }
  return sum <= HostShare();
}

// A context's GPU, and [pointer, pointer + size) in its memory.
struct Span {
  View view;
  char* bytes = nullptr;
  std::uint64_t start = 0;
  std::size_t size = 0;
};

Result FindOn(Driver& driver, int device, DevicePointer pointer, std::size_t size, Span& span) {
  if (const Result result = Look(driver, device, span.view); result != kSuccess) return result;
  if (!IsAllocated(driver, pointer, size)) return kInvalidValue;
  const auto& [first, allocation] = *--driver.allocations.upper_bound(pointer);
  span.bytes = static_cast<char*>(Host(pointer));
  span.start = allocation.start + (pointer - first);
  span.size = size;
  return kSuccess;
}

Result Find(Driver& driver, DevicePointer pointer, std::size_t size, Span& span) {
  if (Current() == nullptr) return kInvalidContext;
  return FindOn(driver, Current()->device, pointer, size, span);
}

Result FindIn(Driver& driver, const void* context, DevicePointer pointer, std::size_t size,
              Span& span) {
  const auto found = driver.contexts.find(context);
  if (found == driver.contexts.end()) return kInvalidContext;
  return FindOn(driver, found->second->device, pointer, size, span);
}

// What is read from the memory of a GPU, where bits may be stuck.
void CopyFrom(const Span& from, char* to) {
  std::memcpy(to, from.bytes, from.size);
  const GpuState& gpu = *from.view.gpu;
  if (gpu.stuck_bits == 0 || gpu.stuck_byte < from.start) return;
  const std::uint64_t position = gpu.stuck_byte - from.start;
  if (position >= from.size) return;
  to[position] = static_cast<char>(static_cast<unsigned char>(to[position]) | gpu.stuck_bits);
}

void Work(double bytes, double bytes_per_second) {
  if (bytes_per_second > 0) Current()->nanoseconds += bytes / bytes_per_second * 1e9;
}

}  // namespace

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
  if (!HostHas(driver, size)) return kOutOfMemory;
  void* memory = std::malloc(size);
  if (memory == nullptr) return kOutOfMemory;
  *pointer = reinterpret_cast<DevicePointer>(memory);
  driver.allocations[*pointer] = {size, device, FreePlace(driver, device, size)};
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
  Span target;
  if (const Result result = Find(driver, to, size, target); result != kSuccess) return result;
  if (from == nullptr) return kInvalidValue;
  std::memcpy(target.bytes, from, size);
  Work(static_cast<double>(size), PcieCopyRate(*target.view.gpu));
  return kSuccess;
}
CUDA_API Result cuMemcpyHtoD(DevicePointer to, const void* from, std::size_t size) {
  return cuMemcpyHtoD_v2(to, from, size);
}

CUDA_API Result cuMemcpyDtoH_v2(void* to, DevicePointer from, std::size_t size) {
  Driver& driver = TheDriver();
  const std::lock_guard guard(driver.mutex);
  Span source;
  if (const Result result = Find(driver, from, size, source); result != kSuccess) return result;
  if (to == nullptr) return kInvalidValue;
  CopyFrom(source, static_cast<char*>(to));
  Work(static_cast<double>(size), PcieCopyRate(*source.view.gpu));
  return kSuccess;
}
CUDA_API Result cuMemcpyDtoH(void* to, DevicePointer from, std::size_t size) {
  return cuMemcpyDtoH_v2(to, from, size);
}

CUDA_API Result cuMemcpyDtoD_v2(DevicePointer to, DevicePointer from, std::size_t size) {
  Driver& driver = TheDriver();
  const std::lock_guard guard(driver.mutex);
  Span source;
  Span target;
  if (const Result result = Find(driver, from, size, source); result != kSuccess) return result;
  if (const Result result = Find(driver, to, size, target); result != kSuccess) return result;
  const bool apart = source.bytes + size <= target.bytes || target.bytes + size <= source.bytes;
  if (!apart) return kInvalidValue;
  CopyFrom(source, target.bytes);
  // Each byte is read and written.
  Work(2 * static_cast<double>(size), MemoryCopyRate(*source.view.gpu));
  return kSuccess;
}
CUDA_API Result cuMemcpyDtoD(DevicePointer to, DevicePointer from, std::size_t size) {
  return cuMemcpyDtoD_v2(to, from, size);
}
// Done when it returns, on whichever stream.
CUDA_API Result cuMemcpyDtoDAsync_v2(DevicePointer to, DevicePointer from, std::size_t size,
                                     void*) {
  return cuMemcpyDtoD_v2(to, from, size);
}

// Copies between two GPUs: over NVLinks where both have some that are up, else over PCIe.
CUDA_API Result cuCtxEnablePeerAccess(void* peer, unsigned flags) {
  Driver& driver = TheDriver();
  const std::lock_guard guard(driver.mutex);
  const auto found = driver.contexts.find(peer);
  if (Current() == nullptr || found == driver.contexts.end()) return kInvalidContext;
  if (flags != 0) return kInvalidValue;
  return found->second->device == Current()->device ? kInvalidDevice : kSuccess;
}

CUDA_API Result cuMemcpyPeerAsync(DevicePointer to, void* to_context, DevicePointer from,
                                  void* from_context, std::size_t size, void*) {
  Driver& driver = TheDriver();
  const std::lock_guard guard(driver.mutex);
  Span source;
  Span target;
  if (const Result result = FindIn(driver, from_context, from, size, source); result != kSuccess) {
    return result;
  }
  if (const Result result = FindIn(driver, to_context, to, size, target); result != kSuccess) {
    return result;
  }
  CopyFrom(source, target.bytes);
  const double links = std::min(NvLinkCopyRate(*source.view.gpu), NvLinkCopyRate(*target.view.gpu));
  const double bus = std::min(PcieCopyRate(*source.view.gpu), PcieCopyRate(*target.view.gpu));
  Work(static_cast<double>(size), links > 0 ? links : bus);
  return kSuccess;
}

CUDA_API Result cuMemsetD32_v2(DevicePointer to, unsigned value, std::size_t count) {
  Driver& driver = TheDriver();
  const std::lock_guard guard(driver.mutex);
  Span target;
  const std::size_t size = count * sizeof(value);
  if (to % sizeof(value) != 0 || size / sizeof(value) != count) return kInvalidValue;
  if (const Result result = Find(driver, to, size, target); result != kSuccess) return result;
  std::fill_n(static_cast<unsigned*>(Host(to)), count, value);
  Work(static_cast<double>(size), MemoryCopyRate(*target.view.gpu));
  return kSuccess;
}
CUDA_API Result cuMemsetD32(DevicePointer to, unsigned value, std::size_t count) {
  return cuMemsetD32_v2(to, value, count);
}

// Memory of the host that GPUs reach without help: here as good as any.
CUDA_API Result cuMemAllocHost_v2(void** memory, std::size_t size) {
  Driver& driver = TheDriver();
  const std::lock_guard guard(driver.mutex);
  if (Current() == nullptr) return kInvalidContext;
  if (memory == nullptr || size == 0) return kInvalidValue;
  if (size > HostShare()) return kOutOfMemory;
  auto made = std::make_unique_for_overwrite<char[]>(size);
  *memory = made.get();
  driver.host_memory[*memory] = std::move(made);
  return kSuccess;
}
CUDA_API Result cuMemAllocHost(void** memory, std::size_t size) {
  return cuMemAllocHost_v2(memory, size);
}
CUDA_API Result cuMemFreeHost(void* memory) {
  Driver& driver = TheDriver();
  const std::lock_guard guard(driver.mutex);
  return driver.host_memory.erase(memory) != 0 ? kSuccess : kInvalidValue;
}
