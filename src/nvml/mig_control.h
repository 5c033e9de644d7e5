// Changing the MIG layout of one GPU through NVML: the mode, GPU instances, compute instances
// (mig-manager.md; NVML's "Multi Instance GPU Management"). Every call needs the administrator's
// rights on the device nodes (kDenied "NoPermission"), and any may be missing in an old library
// (kUnsupported "NvmlFunctionMissing").
//
// Resetting a GPU, which some boards need before a mode counts, is no function of NVML: the driver
// does it by `nvidia-smi --gpu-reset`, or the node is started anew.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "gpu/inventory.h"

namespace pitcrew::nvml {

// Where an instance lies, in memory slices of a GPU or compute slices of a GPU instance.
struct Placement {
  unsigned start = 0;
  unsigned size = 0;
  auto operator<=>(const Placement&) const = default;
};

// One profile that the GPU (or the GPU instance) offers. `index` is NVML's number of the profile
// (gpu::NameMigProfile), `id` the one that instances are made with.
struct InstanceProfile {
  unsigned index = 0;
  unsigned id = 0;
  unsigned slice_count = 0;
  unsigned instance_count = 0;   // that fit into an empty GPU (or GPU instance)
  std::uint64_t memory_mib = 0;  // 0 for compute instances
  // Decoders, encoders, JPEG engines and optical flow accelerators of one instance; compute
  // instances share those of their GPU instance.
  std::array<unsigned, 4> engines = {};
  bool operator==(const InstanceProfile&) const = default;
};

// A GPU instance, or a compute instance of one.
struct Instance {
  unsigned id = 0;
  unsigned profile_id = 0;
  Placement placement;
  bool operator==(const Instance&) const = default;
};

// Not for several threads at once. Instances are named by their ids, which stay when the library is
// opened anew.
class MigControl {
 public:
  virtual ~MigControl() = default;

  // kUnsupported "NotSupported" when the GPU cannot do MIG.
  virtual base::Result<gpu::MigMode> Mode() = 0;
  // Asks for the mode. True: it counts now. False: it is pending until the GPU is reset or the node
  // restarted. kConflict "InUse" while a program uses the GPU: the mode is pending then too.
  virtual base::Result<bool> SetMode(bool enabled) = 0;

  // In NVML's order.
  virtual base::Result<std::vector<InstanceProfile>> GpuInstanceProfiles() = 0;
  // Where instances of the profile may lie on an empty GPU.
  virtual base::Result<std::vector<Placement>> GpuInstancePlacements(unsigned profile_id) = 0;
  // By their placement.
  virtual base::Result<std::vector<Instance>> GpuInstances() = 0;
  // Without a placement NVML chooses one. kConflict "InsufficientResources" when there is no room.
  virtual base::Result<Instance> CreateGpuInstance(unsigned profile_id,
                                                   std::optional<Placement> placement) = 0;
  // kConflict "InUse" while it has compute instances.
  virtual base::Status DestroyGpuInstance(unsigned id) = 0;

  virtual base::Result<std::vector<InstanceProfile>> ComputeInstanceProfiles(
      unsigned gpu_instance) = 0;
  virtual base::Result<std::vector<Instance>> ComputeInstances(unsigned gpu_instance) = 0;
  virtual base::Result<Instance> CreateComputeInstance(unsigned gpu_instance, unsigned profile_id,
                                                       std::optional<Placement> placement) = 0;
  // kConflict "InUse" while a program runs on it.
  virtual base::Status DestroyComputeInstance(unsigned gpu_instance, unsigned id) = 0;
};

}  // namespace pitcrew::nvml
