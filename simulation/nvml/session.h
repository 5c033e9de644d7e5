// What one process has open: initialisation count, the state file, the GPUs it may see, handles.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <unordered_set>
#include <vector>

#include "nvml/abi.h"
#include "simulation/state/layout.h"
#include "simulation/state/state_file.h"

// Marks the functions that the library exports.
#define NVML_API extern "C" __attribute__((visibility("default")))

namespace pitcrew::simulation::library {

using nvml::abi::Return;

// What an opaque handle stands for. Handles live as long as the process; whether the thing still
// exists is looked up at each use.
struct Handle {
  enum class Kind : std::uint8_t { kGpu, kMigDevice, kGpuInstance, kComputeInstance };
  Kind kind = Kind::kGpu;
  std::uint32_t gpu = 0;              // position in NodeState::gpus
  std::uint64_t instance_serial = 0;  // of the GPU instance
  std::uint64_t compute_serial = 0;   // of the compute instance
  auto operator<=>(const Handle&) const = default;
};

// Which of a node's GPUs this process may see, and through which /dev.
struct Visibility {
  std::vector<std::uint32_t>
      gpus;                     // positions in NodeState::gpus; NVML's index is the position here
  std::string dev;              // empty: nothing restricts
  bool mig_restricted = false;  // only MIG devices whose capability nodes are in `dev`
};

class Session {
 public:
  // Lives until the library is unloaded or the process ends; longer when it is still in use then.
  static Session& Get();

  // A thread that waits inside the library, for as long as this object lives.
  class Waiting {
   public:
    Waiting();
    ~Waiting();
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;
  };

  // Initialised, or a thread waits in it: a process may end while its threads go on calling.
  static bool InUse();

  Return Initialize();
  Return Shutdown();

  // Null before Initialize and after the last Shutdown. Every call of the library begins with it,
  // so it is where calls wait while the driver hangs.
  std::shared_ptr<StateFile> state();
  Visibility visibility();
  // Makes device nodes for the capabilities of the MIG devices that exist, as far as this process
  // may: the real library has nvidia-modprobe do that.
  void ShowCapabilities();

  // The one handle for this value.
  void* HandleFor(const Handle& handle);
  // Null when the pointer is no handle of ours.
  const Handle* Find(const void* pointer);

 private:
  std::mutex mutex_;
  unsigned initialized_ = 0;
  std::shared_ptr<StateFile> state_;
  Visibility visibility_;
  std::map<Handle, std::unique_ptr<Handle>> handles_;
  std::unordered_set<const void*> known_;
};

// Waits for the end of a driver that hangs as a whole.
void WaitOutHang(StateFile& file);
// Waits out the slowness that was asked for on this GPU; ends early when it is lifted.
void WaitOutSlowness(StateFile& file, std::uint32_t gpu);

// What a call on a GPU or MIG device handle works on. `instance` and `compute` are null for a GPU.
struct Target {
  std::shared_ptr<const NodeState> node;
  const GpuState* gpu = nullptr;
  const GpuInstanceState* instance = nullptr;
  const ComputeInstanceState* compute = nullptr;
  const Handle* handle = nullptr;
  std::shared_ptr<StateFile> file;
};

// Resolves a handle of one of the device kinds; kUninitialized, kInvalidArgument, kGpuIsLost,
// kUnknown or kNotFound (a MIG device that is gone).
Return ResolveDevice(const void* pointer, Target& target);
// The same, for full GPUs only: kInvalidArgument for a MIG device.
Return ResolveGpu(const void* pointer, Target& target);
Return ResolveGpuInstance(const void* pointer, Target& target);
Return ResolveComputeInstance(const void* pointer, Target& target);

// Copies text with its terminator; kInsufficientSize when `length` does not hold it.
Return CopyText(const std::string& text, char* buffer, unsigned length);

}  // namespace pitcrew::simulation::library

// Returns what is not success from the enclosing function.
#define NVML_TRY(expression)                                           \
  do {                                                                 \
    const ::pitcrew::nvml::abi::Return nvml_try_ = (expression);       \
    if (nvml_try_ != ::pitcrew::nvml::abi::kSuccess) return nvml_try_; \
  } while (false)
#define NVML_REQUIRE(condition) \
  if (!(condition)) return ::pitcrew::nvml::abi::kInvalidArgument
