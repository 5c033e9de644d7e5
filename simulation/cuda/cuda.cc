// A thin CUDA driver API over the simulated GPUs: devices, contexts, memory in the host's memory,
// and one kernel. Enough for programs that prove that a GPU can be used; whatever is not here
// answers CUDA_ERROR_NOT_SUPPORTED or does not exist. Result codes and attributes are CUDA's.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/mig_profile.h"
#include "simulation/state/discovery.h"
#include "simulation/state/incidents.h"
#include "simulation/state/mig.h"
#include "simulation/state/readings.h"
#include "simulation/state/state_file.h"

#define CUDA_API extern "C" __attribute__((visibility("default")))

namespace pitcrew::simulation::cuda {
namespace {

using Result = int;
constexpr Result kSuccess = 0;
constexpr Result kInvalidValue = 1;
constexpr Result kOutOfMemory = 2;
constexpr Result kNotInitialized = 3;
constexpr Result kDeviceUnavailable = 46;
constexpr Result kNoDevice = 100;
constexpr Result kInvalidDevice = 101;
constexpr Result kInvalidImage = 200;
constexpr Result kInvalidContext = 201;
constexpr Result kInvalidHandle = 400;
constexpr Result kNotFound = 500;
constexpr Result kIllegalAddress = 700;
constexpr Result kNotSupported = 801;
constexpr Result kUnknown = 999;

using DevicePointer = unsigned long long;

// What an ordinal stands for: a GPU, or the one MIG device that CUDA uses of a GPU in MIG mode.
struct CudaDevice {
  std::uint32_t gpu = 0;
  bool mig = false;
  MigDeviceRef ref;
};

struct Context {
  int device = 0;
};

struct Module {
  std::string image;
};

struct Function {
  std::string name;
};

struct Driver {
  std::mutex mutex;
  std::shared_ptr<StateFile> file;
  std::vector<CudaDevice> devices;
  std::map<const void*, std::unique_ptr<Context>> contexts;
  std::map<const void*, std::unique_ptr<Module>> modules;
  std::map<const void*, std::unique_ptr<Function>> functions;
  struct Allocation {
    std::size_t size;
    int device;
  };
  std::map<DevicePointer, Allocation> allocations;
};

// Never destroyed: threads may still call while the process ends.
Driver& TheDriver() {
  static Driver* driver = new Driver;
  return *driver;
}

// The thread's stack of contexts. Trivial, so that the library can be unloaded while threads live.
struct ContextStack {
  static constexpr int kDepth = 16;
  Context* items[kDepth];
  int depth;

  [[nodiscard]] Context* Top() const { return depth == 0 ? nullptr : items[depth - 1]; }
  [[nodiscard]] bool Push(Context* context) {
    if (depth == kDepth) return false;
    items[depth++] = context;
    return true;
  }
  void Pop() { depth = depth == 0 ? 0 : depth - 1; }
  void Erase(const Context* context) {
    int kept = 0;
    for (int i = 0; i < depth; ++i) {
      if (items[i] != context) items[kept++] = items[i];
    }
    depth = kept;
  }
};
constinit thread_local ContextStack current_contexts{};

std::filesystem::path LibraryPath() {
  Dl_info info{};
  static const char kAnchor = 0;
  if (::dladdr(&kAnchor, &info) == 0 || info.dli_fname == nullptr) return {};
  return info.dli_fname;
}

std::vector<CudaDevice> ListDevices(const NodeState& node) {
  const auto dev = FindDeviceFolder(LibraryPath());
  const bool restricted = RestrictsMig(dev);
  std::vector<CudaDevice> devices;
  for (std::uint32_t i = 0; i < node.gpu_count && i < kMaxGpus; ++i) {
    const GpuState& gpu = node.gpus[i];
    if (!HasDeviceNode(dev, gpu)) continue;
    if (gpu.mig_current == 0) {
      devices.push_back({i, false, {}});
      continue;
    }
    for (const auto& ref : ListMigDevices(gpu)) {
      if (restricted && !HasCapabilityNodes(dev, gpu, ref.instance_id, ref.compute_id)) continue;
      devices.push_back({i, true, ref});
      break;
    }
  }
  return devices;
}

// The state and the device of an ordinal. Called with the mutex held.
struct View {
  std::shared_ptr<const NodeState> node;
  const GpuState* gpu = nullptr;
  const GpuInstanceState* instance = nullptr;
  const ComputeInstanceState* compute = nullptr;
};

Result Look(Driver& driver, int ordinal, View& view) {
  if (!driver.file) return kNotInitialized;
  if (ordinal < 0 || static_cast<std::size_t>(ordinal) >= driver.devices.size()) {
    return kInvalidDevice;
  }
  const CudaDevice& device = driver.devices[static_cast<std::size_t>(ordinal)];
  view.node = driver.file->Snapshot();
  view.gpu = &view.node->gpus[device.gpu];
  if (view.gpu->lost != 0) return kDeviceUnavailable;
  if (view.gpu->unknown_error != 0) return kUnknown;
  if (!device.mig) return kSuccess;
  view.instance = FindInstance(*view.gpu, device.ref.instance_serial);
  if (view.instance != nullptr) {
    view.compute = FindComputeInstance(*view.instance, device.ref.compute_serial);
  }
  return view.compute != nullptr ? kSuccess : kDeviceUnavailable;
}

std::uint64_t TotalMemory(const View& view) {
  if (view.compute == nullptr) return view.gpu->memory_total;
  return ProfileOf(*view.gpu, *view.instance).memory_mib << 20;
}

std::uint64_t UsedHere(const Driver& driver, int device) {
  std::uint64_t used = 0;
  for (const auto& [pointer, allocation] : driver.allocations) {
    if (allocation.device == device) used += allocation.size;
  }
  return used;
}

Context* Current() { return current_contexts.Top(); }

// Shows this process on the GPU where the state can be written; in a container it cannot.
void Announce(Driver& driver, int ordinal, bool running) {
  if (!driver.file->writable()) return;
  const CudaDevice& device = driver.devices[static_cast<std::size_t>(ordinal)];
  const auto pid = static_cast<std::uint32_t>(::getpid());
  (void)driver.file->Update([&](NodeState& node) {
    GpuState& gpu = node.gpus[device.gpu];
    if (!running) return RemoveProcess(gpu, pid);
    char path[256] = {};
    if (::readlink("/proc/self/exe", path, sizeof(path) - 1) < 0) path[0] = 0;
    return AddProcess(gpu, pid, path, UsedHere(driver, ordinal), false,
                      device.mig ? device.ref.instance_id : kNoInstance,
                      device.mig ? device.ref.compute_id : kNoInstance);
  });
}

// The allocation that holds [pointer, pointer + size), or false.
bool IsAllocated(const Driver& driver, DevicePointer pointer, std::size_t size) {
  auto after = driver.allocations.upper_bound(pointer);
  if (after == driver.allocations.begin()) return false;
  const auto& [start, allocation] = *--after;
  return pointer - start <= allocation.size && size <= allocation.size - (pointer - start);
}

void* Host(DevicePointer pointer) { return reinterpret_cast<void*>(pointer); }

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
}  // namespace pitcrew::simulation::cuda

using namespace pitcrew::simulation;
using namespace pitcrew::simulation::cuda;

CUDA_API Result cuInit(unsigned flags) {
  if (flags != 0) return kInvalidValue;
  Driver& driver = TheDriver();
  const std::lock_guard guard(driver.mutex);
  if (driver.file) return kSuccess;
  auto file = StateFile::Open(FindStateFile(LibraryPath()));
  if (!file) return kNoDevice;
  const auto node = (*file)->Snapshot();
  if (node->driver_loaded == 0) return kNoDevice;
  auto devices = ListDevices(*node);
  if (devices.empty()) return kNoDevice;
  driver.devices = std::move(devices);
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
      *value = static_cast<int>(
          view.compute != nullptr
              ? ProfileOf(ProfileOf(gpu, *view.instance), *view.compute).multiprocessors
              : gpu.multiprocessors);
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

CUDA_API Result cuCtxCreate_v2(void** context, unsigned, int device) {
  Driver& driver = TheDriver();
  const std::lock_guard guard(driver.mutex);
  View view;
  if (context == nullptr) return kInvalidValue;
  if (const Result result = Look(driver, device, view); result != kSuccess) return result;
  if (view.gpu->compute_mode == 2) return kDeviceUnavailable;  // prohibited
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

CUDA_API Result cuMemAlloc_v2(DevicePointer* pointer, std::size_t size) {
  Driver& driver = TheDriver();
  const std::lock_guard guard(driver.mutex);
  if (Current() == nullptr) return kInvalidContext;
  if (pointer == nullptr || size == 0) return kInvalidValue;
  const int device = Current()->device;
  View view;
  if (const Result result = Look(driver, device, view); result != kSuccess) return result;
  const std::uint64_t total = TotalMemory(view);
  const std::uint64_t used = UsedHere(driver, device);
  if (size > total || used > total - size) return kOutOfMemory;
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
  *free = *total - UsedHere(driver, Current()->device);
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
