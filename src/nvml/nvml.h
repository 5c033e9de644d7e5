// The only code that knows NVML. The library is opened at run time and every symbol is optional: a
// missing one is the error "NvmlFunctionMissing" (kUnsupported) of the call that needed it, never a
// crash. Structures and constants: feature-discovery.md Part II.
//
// Error reasons (stable): LibraryNotFound, DriverNotLoaded, NvmlUninitialized, NvmlInvalidArgument,
// NotSupported, NoPermission, NotFound, InsufficientSize, InsufficientPower, Timeout, IrqIssue,
// NvmlFunctionMissing, CorruptedInforom, GpuIsLost, ResetRequired, OperatingSystemBlocked,
// DriverLibraryMismatch, InUse, OutOfMemory, NoData, VgpuEccNotSupported, InsufficientResources,
// FrequencyNotSupported, ArgumentVersionMismatch, Deprecated, NotReady, GpuNotFound, InvalidState,
// NvmlUnknownError, NvmlHangs (guarded.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gpu/inventory.h"
#include "nvml/meter.h"
#include "nvml/mig_control.h"

namespace pitcrew::nvml {

// What a health event says. 0xFFFFFFFF for a full GPU's instance ids.
enum class EventType : std::uint64_t {
  kSingleBitEcc = 0x1,
  kDoubleBitEcc = 0x2,
  kPState = 0x4,
  kXid = 0x8,
};
inline constexpr std::uint32_t kNoInstance = 0xffffffff;
// What upstream's health check registers: XID, double-bit and single-bit ECC errors.
inline constexpr std::uint64_t kHealthEvents = 0x8 | 0x2 | 0x1;

struct Event {
  std::string device_uuid;  // of the full GPU; empty when the library could not tell
  EventType type = EventType::kXid;
  std::uint64_t data = 0;  // the XID of kXid
  std::uint32_t gpu_instance_id = kNoInstance;
  std::uint32_t compute_instance_id = kNoInstance;
};

class Library;

// Delivers events of registered GPUs. One thread waits at a time; another may register GPUs
// meanwhile.
class EventSet {
 public:
  virtual ~EventSet() = default;

  // Registers the GPU for those of `mask` that it supports. kUnsupported "NotSupported": a GPU too
  // old for events, which upstream only warns about; every other error means that the GPU's health
  // cannot be known.
  virtual base::Status Register(std::string_view device_uuid, std::uint64_t mask) = 0;

  // Blocks until an event comes, `stop_fd` becomes readable (kCancelled "Stopped"; -1 = never), or
  // `timeout` passes (kTimeout "Timeout"; nullopt = no limit). Any other error is NVML's own.
  virtual base::Result<Event> Wait(int stop_fd,
                                   std::optional<std::chrono::milliseconds> timeout) = 0;
};

// Which processes may use a GPU (nvmlComputeMode_t).
enum class ComputeMode : unsigned {
  kDefault = 0,
  kProhibited = 2,
  kExclusiveProcess = 3,  // one process, or the clients of one MPS server
};

// A process that has a context on a GPU.
struct Process {
  unsigned pid = 0;
  std::uint64_t used_memory = 0;  // bytes; 0 when unknown
  std::uint32_t gpu_instance_id = kNoInstance;
  std::uint32_t compute_instance_id = kNoInstance;
  bool graphics = false;
  std::string name;  // the program's path; empty when unknown
};

// What moves over time; nullopt where the GPU or the library does not say.
struct Readings {
  std::optional<unsigned> temperature_celsius;
  std::optional<unsigned> fan_percent;
  std::optional<unsigned> power_milliwatt;
  std::optional<unsigned> power_limit_milliwatt;
  std::optional<unsigned> gpu_utilization_percent;
  std::optional<unsigned> memory_utilization_percent;
  std::optional<unsigned> performance_state;  // P<n>
  std::optional<unsigned> sm_clock_mhz;
  std::optional<unsigned> memory_clock_mhz;
  std::optional<bool> persistence_mode;
  std::optional<bool> display_active;
  std::optional<bool> ecc_mode;
  std::optional<std::uint64_t> ecc_uncorrected_volatile;
  std::optional<unsigned> compute_mode;  // 0 default, 2 prohibited, 3 exclusive process
  std::vector<Process> processes;
};

// What the driver says has to be done before the GPU can be relied on again
// (nvmlGpuRecoveryAction_t, drivers from 570 on).
enum class RecoveryAction : unsigned {
  kNone = 0,
  kResetGpu = 1,
  kRebootNode = 2,
  kDrainPeers = 3,     // drain what uses peer-to-peer
  kDrainAndReset = 4,  // no new work; a reset gives the full GPU back
};
std::string_view ToString(RecoveryAction action);  // "reset the GPU"; for a sentence

// How fit a GPU is for work; nullopt where the GPU or the library does not say.
struct Condition {
  std::optional<RecoveryAction> recovery_action;
  // Rows of the memory wait for a reset to be remapped; a bank has none left to remap to.
  std::optional<bool> remap_pending;
  std::optional<bool> remap_failed;
  bool operator==(const Condition&) const = default;
};

class Library {
 public:
  // Opens libnvidia-ml.so.1 and initialises it. `driver_roots` are tried in order; "" or "/" means
  // the dynamic loader's own search, any other root its library folders (device-plugin.md section
  // 5.1), and when none has it, the loader's search. kNotFound "LibraryNotFound" when there is no
  // library; kUnavailable "DriverNotLoaded" when there is no kernel driver.
  static base::Result<std::shared_ptr<Library>> Open(
      const std::vector<std::filesystem::path>& driver_roots);

  virtual ~Library() = default;

  // What dlopen was given.
  [[nodiscard]] virtual const std::filesystem::path& path() const = 0;

  // Fails only when NVML as a whole does; a GPU that cannot be read is in the list with `fault`.
  virtual base::Result<gpu::Inventory> ReadInventory() = 0;
  // Its two steps: everything but the GPUs themselves, of which `devices` has as many as there are,
  // each with its index; and one GPU.
  virtual base::Result<gpu::Inventory> ReadDriver() = 0;
  virtual gpu::Device ReadDevice(unsigned index) = 0;

  // GPUs that cannot be read have no connections; the others have theirs.
  virtual base::Result<gpu::Topology> ReadTopology(const gpu::Inventory& inventory) = 0;
  // One step of it: how the GPU at position `from` of the inventory reaches those at `to`.
  virtual base::Result<std::vector<gpu::Connection>> ReadConnections(
      const gpu::Inventory& inventory, unsigned from, const std::vector<unsigned>& to) = 0;
  virtual base::Result<Readings> ReadReadings(std::string_view device_uuid) = 0;
  // For readings in bulk, over time. It keeps the library open.
  virtual std::shared_ptr<Meter> MakeMeter() = 0;
  // An error is that of a GPU that does not answer, as Probe's.
  virtual base::Result<Condition> ReadCondition(std::string_view device_uuid) = 0;

  virtual base::Result<std::string> DriverVersion() = 0;
  // 1000 * major + 10 * minor.
  virtual base::Result<int> CudaVersion() = 0;

  virtual base::Result<std::unique_ptr<EventSet>> CreateEventSet() = 0;

  // NVML's answer to one cheap call on the GPU: is it still there? kUnavailable "GpuIsLost" etc.
  virtual base::Status Probe(std::string_view device_uuid) = 0;

  // Until the GPU is reset or its driver goes. Needs root.
  virtual base::Status SetComputeMode(std::string_view device_uuid, ComputeMode mode) = 0;

  // The GPU's MIG layout, to be changed.
  virtual base::Result<std::unique_ptr<MigControl>> OpenMig(std::string_view device_uuid) = 0;
};

}  // namespace pitcrew::nvml
