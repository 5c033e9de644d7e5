// What the driver's type ids of the vendor-specific VFIO framework are called. A GPU tells the
// names only of what it has room for, a full one none: so they are written down while they are told
// (virtualisation-and-olm.md section 5). The vGPU device manager writes the file, device plugins
// read it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gpu/pci_address.h"
#include "host/vendor_vgpu.h"

namespace pitcrew::node::vgpu_types {

// Where it is on a node. Forgotten with the boot, like the vGPUs.
inline constexpr std::string_view kKnownTypesFile = "/run/nvidia/vgpu/types.json";

// A value. Names count for one GPU only: nothing promises that an id means the same on another one.
class KnownTypes {
 public:
  // Names as the driver writes them, by id: "NVIDIA H200X-1-18C".
  using Names = std::map<std::uint32_t, std::string>;

  // Nothing is known where there is no such file, or it holds something else.
  static KnownTypes Load(const std::filesystem::path& file);
  // Writes what differs, with the folders that it needs.
  base::Status Save(const std::filesystem::path& file) const;

  // What the GPU with this address (its physical function) tells now. A newer name replaces an
  // older one: the driver may have been loaded anew, in another version.
  void Learn(const gpu::PciAddress& gpu, const std::vector<host::VendorVgpuType>& told);
  // Of those that are not known here.
  void Learn(const KnownTypes& others);

  [[nodiscard]] const Names& Of(const gpu::PciAddress& gpu) const;
  // Empty when it is not known.
  [[nodiscard]] std::string NameOf(const gpu::PciAddress& gpu, std::uint32_t id) const;
  bool operator==(const KnownTypes&) const = default;

 private:
  std::map<gpu::PciAddress, Names> names_;
};

}  // namespace pitcrew::node::vgpu_types
