// vGPUs on virtual functions whose driver has the vendor-specific VFIO framework: kernels and
// boards without mediated devices (virtualisation-and-olm.md section 5). A virtual function has one
// vGPU or none.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gpu/pci_address.h"
#include "host/root.h"

namespace pitcrew::host {

struct VendorVgpuType {
  std::uint32_t id = 0;  // "1414"
  std::string name;      // "NVIDIA H200X-1-18C"
  bool operator==(const VendorVgpuType&) const = default;
};

// The content of `creatable_vgpu_types`: a header, then "<id> : <name>" a line. Lines of another
// form are left out.
std::vector<VendorVgpuType> ParseCreatableVgpuTypes(std::string_view text);

// Whether the driver offers vGPUs on this function. False also on hosts with mediated devices, and
// while the vGPU manager is not loaded.
base::Result<bool> HasVendorVgpus(const Root& root, const gpu::PciAddress& function);
// Those that can be made on this function now: fewer, the more of the GPU its siblings have. By id.
base::Result<std::vector<VendorVgpuType>> CreatableVgpuTypes(const Root& root,
                                                             const gpu::PciAddress& function);
// The vGPU that the function has; 0: none.
base::Result<std::uint32_t> CurrentVgpuType(const Root& root, const gpu::PciAddress& function);
// Makes a vGPU of this type; 0 removes the one that is there. Errors are those of WriteAttribute
// (sysfs.h).
base::Status SetVgpuType(const Root& root, const gpu::PciAddress& function, std::uint32_t type);

}  // namespace pitcrew::host
