// What a GPU is divided into, and what of the GPU matters for it; plain values.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/observed.h"
#include "gpu/inventory.h"
#include "gpu/mig_geometry.h"
#include "gpu/pci_address.h"
#include "node/mig/configuration.h"
#include "node/mig/device_id.h"

namespace pitcrew::node::mig {

// A compute instance of a GPU instance. `profile` is NVML's index (gpu::ComputeInstanceSlices).
struct ComputeInstance {
  unsigned profile = 0;
  // In compute slices of the GPU instance; nullopt: the driver chooses.
  std::optional<gpu::MigPlacement> placement = {};
  bool operator==(const ComputeInstance&) const = default;
};

// `profile` is NVML's index (gpu::GpuInstanceSlices).
struct GpuInstance {
  unsigned profile = 0;
  // In memory slices of the GPU; nullopt: the driver chooses.
  std::optional<gpu::MigPlacement> placement = {};
  std::vector<ComputeInstance> compute = {};
  bool operator==(const GpuInstance&) const = default;
};

// One GPU, divided. Without MIG there are no instances.
struct Layout {
  bool mig_enabled = false;
  std::vector<GpuInstance> instances = {};
  bool operator==(const Layout&) const = default;
};
// Whether both have the same instances at the same places, in whatever order; places count only
// where both say them.
[[nodiscard]] bool SameLayout(const Layout& a, const Layout& b);

// A GPU instance profile that a GPU offers.
struct Profile {
  unsigned index = 0;  // NVML's; gpu::NameMigProfile
  unsigned id = 0;     // what instances are made with
  unsigned count = 0;  // that fit into an empty GPU
  std::uint64_t memory_mib = 0;
  // Of each instance: decoders, encoders, JPEG engines, optical flow accelerators.
  std::array<unsigned, 4> engines = {};
  // Where it may lie on an empty GPU; empty when the driver does not tell.
  std::vector<gpu::MigPlacement> placements = {};
  bool operator==(const Profile&) const = default;
};

// One GPU of the node as it is now.
struct Gpu {
  int position = 0;  // in the node's list: what `devices` of a configuration counts
  gpu::PciAddress pci = {};
  DeviceId id = {};
  std::string uuid = {};  // empty while no driver is loaded
  std::string name = {};  // the same
  std::uint64_t memory_bytes = 0;
  // Absent: the board cannot do MIG. Unknown: the GPU could not be read, nothing is said about it.
  base::Observed<gpu::MigMode> mode = base::Observed<gpu::MigMode>::Missing();
  // Unknown: no driver is loaded, or it does not tell while MIG is off.
  base::Observed<std::vector<Profile>> profiles = base::Observed<std::vector<Profile>>::Missing();
  // What it is divided into now. Unknown without a driver.
  base::Observed<Layout> layout = base::Observed<Layout>::Missing();

  // Positive evidence that the board cannot do MIG.
  [[nodiscard]] bool CannotDoMig() const { return mode.is_absent(); }
  // "GPU 3 (NVIDIA H100 80GB HBM3, 0000:1b:00.0)".
  [[nodiscard]] std::string Title() const;
};

// The MIG devices of a layout by name, as upstream counts them: compute instances. kInvalid when
// the GPU has no such profile.
base::Result<ProfileCounts> CountsOf(const Gpu& gpu, const Layout& layout);

}  // namespace pitcrew::node::mig
