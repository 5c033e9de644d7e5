// What one process has open: the state file, devices, contexts, modules, memory. Result codes and
// attribute numbers are CUDA's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "simulation/state/mig.h"
#include "simulation/state/state_file.h"

// Marks the functions that the library exports.
#define CUDA_API extern "C" __attribute__((visibility("default")))

namespace pitcrew::simulation::cuda {

using Result = int;
inline constexpr Result kSuccess = 0;
inline constexpr Result kInvalidValue = 1;
inline constexpr Result kOutOfMemory = 2;
inline constexpr Result kNotInitialized = 3;
inline constexpr Result kDeviceUnavailable = 46;
inline constexpr Result kNoDevice = 100;
inline constexpr Result kInvalidDevice = 101;
inline constexpr Result kInvalidImage = 200;
inline constexpr Result kInvalidContext = 201;
inline constexpr Result kInvalidHandle = 400;
inline constexpr Result kNotFound = 500;
inline constexpr Result kIllegalAddress = 700;
inline constexpr Result kNotSupported = 801;
inline constexpr Result kMpsConnectionFailed = 805;
inline constexpr Result kUnknown = 999;

using DevicePointer = unsigned long long;

// What an ordinal stands for: a GPU, or the one MIG device that CUDA uses of a GPU in MIG mode.
struct CudaDevice {
  std::uint32_t gpu = 0;
  bool mig = false;
  MigDeviceRef ref;
};

struct Context {
  int device = 0;
  // For how long the simulated GPU has worked for it. Copies take the time that the board would
  // need, whatever the host's memory does; only events tell of it.
  double nanoseconds = 0;
};

// A moment of a context's work; below 0 before it was recorded.
struct Event {
  double nanoseconds = -1;
};

struct Module {
  std::string image;
};

struct Function {
  std::string name;
};

class MpsClient;

struct Driver {
  Driver();
  ~Driver();  // frees what programs left allocated

  std::mutex mutex;
  std::shared_ptr<StateFile> file;
  std::vector<CudaDevice> devices;
  std::unique_ptr<MpsClient> mps;  // null: without MPS
  std::map<const void*, std::unique_ptr<Context>> contexts;
  std::map<const void*, std::unique_ptr<Module>> modules;
  std::map<const void*, std::unique_ptr<Function>> functions;
  std::map<const void*, std::unique_ptr<Event>> events;
  std::map<const void*, std::unique_ptr<char[]>> host_memory;
  struct Allocation {
    std::size_t size;
    int device;
    std::uint64_t start;  // where it lies in the memory of the simulated GPU
  };
  std::map<DevicePointer, Allocation> allocations;
};

// Its mutex is held by every caller.
Driver& TheDriver();

// Where the loader found this library.
std::filesystem::path LibraryPath();
// The GPUs that this process may see; of a GPU in MIG mode, its first MIG device.
std::vector<CudaDevice> ListDevices(const NodeState& node);

// The state and the device of an ordinal. Called with the mutex held.
struct View {
  std::shared_ptr<const NodeState> node;
  const GpuState* gpu = nullptr;
  const GpuInstanceState* instance = nullptr;
  const ComputeInstanceState* compute = nullptr;
};

Result Look(Driver& driver, int ordinal, View& view);
std::uint64_t TotalMemory(const View& view);
// Where `size` bytes are free in the memory of the device, as far as this process has it.
std::uint64_t FreePlace(const Driver& driver, int device, std::size_t size);
// Bytes that this process allocated on the device.
std::uint64_t UsedHere(const Driver& driver, int device);
// Shows this process on the GPU where the state can be written; in a container it cannot.
void Announce(Driver& driver, int ordinal, bool running);
// Whether one allocation holds [pointer, pointer + size).
bool IsAllocated(const Driver& driver, DevicePointer pointer, std::size_t size);
inline void* Host(DevicePointer pointer) { return reinterpret_cast<void*>(pointer); }

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
extern constinit thread_local ContextStack current_contexts;
inline Context* Current() { return current_contexts.Top(); }

}  // namespace pitcrew::simulation::cuda
