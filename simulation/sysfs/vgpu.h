// vGPUs of a GPU: types, how many of which fit together. Pure.
//
// Sources: NVIDIA's Virtual GPU software documentation (types, one framebuffer size on a GPU in its
// equal-size mode); the files of the driver's vGPU interface to VFIO that are published, for the
// attributes of the vendor-specific framework and their errnos; vgpu-device-manager.md sections 4
// and 8.1; virtualisation-and-olm.md section 5.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace pitcrew::simulation::sysfs {

// How the loaded driver offers vGPUs: not at all (no vGPU manager), by the kernel's mediated
// devices, or by attributes of its own on virtual functions.
enum class VgpuFramework { kNone, kMdev, kVendor };

struct VgpuType {
  std::uint32_t id = 0;  // 474 of "nvidia-474"
  std::string name;      // "NVIDIA A100-4C"
  std::uint32_t framebuffer_gib = 0;
  std::uint32_t count = 0;   // how many one GPU takes
  std::string mig_instance;  // "1g.5gb" of a type that takes a GPU instance; empty: time-sliced
};

// How MIG divides a GPU.
struct MigState {
  bool enabled = false;
  std::map<std::string, std::uint32_t> instances;  // GPU instances by the name of their profile
  bool operator==(const MigState&) const = default;
};

struct Gpu {
  std::string profile;
  std::vector<VgpuType> types;
  std::uint32_t virtual_functions = 0;  // 0: vGPUs lie on the GPU itself
  MigState mig;

  [[nodiscard]] const VgpuType* FindType(std::uint32_t id) const;
};

// One vGPU that exists: its type.
using VgpuInUse = const VgpuType*;

// How many more of `type` the GPU takes beside those. A type whose GPU instance was taken away
// still counts.
[[nodiscard]] std::uint32_t Fits(const Gpu& gpu, const std::vector<VgpuInUse>& in_use,
                                 const VgpuType& type);

// The GPU instance that a type takes: "1-5C" 1g.5gb, "1-5CME" 1g.5gb+me; empty for a time-sliced
// type.
[[nodiscard]] std::string MigInstanceOf(std::string_view short_name);

}  // namespace pitcrew::simulation::sysfs
