// What GPUs a node has, as values: made by the nvml room, read by everybody else. Nothing here
// talks to hardware. Field meanings follow NVML (feature-discovery.md Part II).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/observed.h"
#include "gpu/mig_profile.h"
#include "gpu/pci_address.h"

namespace pitcrew::gpu {

// NVML's numbers (feature-discovery.md section 14).
enum class Architecture : unsigned {
  kKepler = 2,
  kMaxwell = 3,
  kPascal = 4,
  kVolta = 5,
  kTuring = 6,
  kAmpere = 7,
  kAda = 8,
  kHopper = 9,
  kBlackwell = 10,
  kRubin = 13,
  kUnknown = 0xffffffff,
};
std::string_view ToString(Architecture architecture);  // "Hopper"; "Unknown"

struct ComputeCapability {
  int major = 0;
  int minor = 0;
  [[nodiscard]] std::string ToString() const;  // "9.0"
  auto operator<=>(const ComputeCapability&) const = default;
};

// Bytes.
struct Memory {
  std::uint64_t total = 0;
  std::uint64_t free = 0;
  std::uint64_t used = 0;
  bool operator==(const Memory&) const = default;
};

// `pending` takes effect at the next GPU reset.
struct MigMode {
  bool current = false;
  bool pending = false;
  bool operator==(const MigMode&) const = default;
};

// nvmlDeviceAttributes_t; equal for equal profiles.
struct MigAttributes {
  unsigned multiprocessor_count = 0;
  unsigned shared_copy_engine_count = 0;
  unsigned shared_decoder_count = 0;
  unsigned shared_encoder_count = 0;
  unsigned shared_jpeg_count = 0;
  unsigned shared_ofa_count = 0;
  unsigned gpu_instance_slice_count = 0;
  unsigned compute_instance_slice_count = 0;
  std::uint64_t memory_mib = 0;
  bool operator==(const MigAttributes&) const = default;
};

struct MigDevice {
  unsigned index = 0;  // NVML's MIG index in its parent; empty slots leave gaps
  std::string uuid;    // "MIG-..."
  unsigned gpu_instance_id = 0;
  unsigned compute_instance_id = 0;
  MigProfile profile;
  MigAttributes attributes;
  base::Observed<Memory> memory = base::Observed<Memory>::Missing();
};

// NVLink fabric (multi-node NVLink; feature-discovery.md section 4.5).
struct Fabric {
  std::array<std::uint8_t, 16> cluster_uuid = {};
  std::uint32_t clique_id = 0;
  std::uint8_t state = 0;    // 3 = completed
  std::uint32_t status = 0;  // an NVML return code, 0 = success
  // Completed, successful, and the cluster UUID is not all zero.
  [[nodiscard]] bool IsAttached() const;
  [[nodiscard]] std::string ClusterUuidText() const;  // lower-case 8-4-4-4-12
};

struct Device {
  unsigned index = 0;         // NVML's index
  unsigned minor_number = 0;  // of /dev/nvidia<minor>; not always the index
  std::string uuid;           // "GPU-..."
  std::string serial;         // empty when the board has none
  std::string name;           // "NVIDIA H100 80GB HBM3"
  unsigned brand = 0;         // NVML's brand number
  Architecture architecture = Architecture::kUnknown;
  ComputeCapability compute_capability;
  PciAddress pci;
  std::uint32_t pci_device_id = 0;     // device << 16 | vendor: 0x233010DE
  std::uint32_t pci_subsystem_id = 0;  // the same form
  std::optional<int> numa_node;        // as NVML knows it; sysfs (room host) is upstream's source

  base::Observed<Memory> memory = base::Observed<Memory>::Missing();
  // Missing: the GPU (or the library) cannot do MIG.
  base::Observed<MigMode> mig_mode = base::Observed<MigMode>::Missing();
  unsigned max_mig_devices = 0;
  std::vector<MigDevice> mig_devices;
  // Every "C = G" and "C < G" profile that the GPU offers, in enumeration order (section 15);
  // empty when the GPU is not MIG-capable.
  std::vector<MigProfile> mig_profiles;
  // Missing: no NVLink fabric, or a library too old to know it.
  base::Observed<Fabric> fabric = base::Observed<Fabric>::Missing();
  // Missing: the library cannot tell. Present true: memory is coherent with the CPU (ATS).
  base::Observed<bool> coherent_memory = base::Observed<bool>::Missing();

  // Set when NVML listed the GPU but could not read it ("GpuIsLost", "NvmlUnknownError", ...): only
  // `index` and what was read before the failure are meaningful.
  std::optional<base::Error> fault;

  [[nodiscard]] bool IsMigCapable() const { return mig_mode.is_present(); }
  [[nodiscard]] bool IsMigEnabled() const {
    return mig_mode.is_present() && mig_mode.value()->current;
  }
};

struct Inventory {
  std::string driver_version;   // "580.95.05"
  std::string library_version;  // NVML's own, "13.580.95.05"; empty when unknown
  int cuda_version = 0;         // 1000 * major + 10 * minor: 13000; 0 when unknown
  std::vector<Device> devices;  // by index

  [[nodiscard]] int CudaMajor() const { return cuda_version / 1000; }
  [[nodiscard]] int CudaMinor() const { return cuda_version % 1000 / 10; }

  // Null when there is none; borrowed.
  [[nodiscard]] const Device* FindDevice(std::string_view uuid) const;
};

// Names that upstream's device walks skip by exact match (device-plugin.md section 7).
bool IsSkippedDeviceName(std::string_view name);

// NVML's numbers (feature-discovery.md section 14): how near two GPUs are.
enum class TopologyLevel : unsigned {
  kInternal = 0,
  kSingle = 10,
  kMultiple = 20,
  kHostBridge = 30,
  kNode = 40,
  kSystem = 50,
};

// How GPU `a` reaches GPU `b` (indices into Inventory::devices, a != b).
struct Connection {
  unsigned a = 0;
  unsigned b = 0;
  TopologyLevel level = TopologyLevel::kSystem;
  unsigned nvlinks =
      0;  // active NVLinks of `a` whose far end is `b` itself (switches do not count)
};

struct Topology {
  std::vector<Connection> connections;  // every ordered pair
};

}  // namespace pitcrew::gpu
