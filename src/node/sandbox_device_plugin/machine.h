// What a node has for virtual machines at one moment: PCI functions that a VFIO driver holds, and
// vGPUs (kubevirt-device-plugin.md sections 2, 3.2 and 5; virtualisation-and-olm.md section 5).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "gpu/pci_address.h"
#include "host/root.h"
#include "host/vfio_device.h"
#include "node/vgpu_types/known_types.h"

namespace pitcrew::node::sandbox_device_plugin {

// Of NVIDIA, with a VFIO driver; or with NVIDIA's own, which is one for its virtual functions where
// it has the vendor-specific VFIO framework.
struct PassthroughFunction {
  enum class Kind {
    kGpu,        // a whole GPU, or a virtual function of one
    kSwitch,     // NVSwitch
    kVgpu,       // a virtual function that is a vGPU by the vendor-specific VFIO framework
    kCompanion,  // audio, USB, ...: goes with the GPU in whose IOMMU group it is
  };
  gpu::PciAddress address;
  Kind kind = Kind::kGpu;
  std::uint16_t device = 0;
  std::optional<int> numa_node;
  std::uint32_t iommu_group = 0;
  std::string vfio_name;          // "vfio3"; empty where the kernel has none
  std::string vfio_name_unknown;  // why it could not be read
  std::string vgpu_type;          // of a kVgpu, as in the resource: "NVIDIA_H200X-1-18C"
};

// A mediated device.
struct Vgpu {
  std::string uuid;
  std::string name;  // of the type, as in the resource: "NVIDIA_A10-24Q"
  std::optional<int> numa_node;
};

struct Machine {
  std::vector<PassthroughFunction> functions;  // by address
  std::vector<Vgpu> vgpus;                     // by UUID
  // PCI addresses and UUIDs that are there and could not be read, with why: of these nothing is
  // known.
  std::map<std::string, std::string> unreadable;
  // IOMMU groups that cannot be given to a virtual machine, because another driver has a device in
  // them, or may have.
  std::map<std::uint32_t, std::string> blocked_groups;
  bool iommufd = false;  // /dev/iommu is there
  // As host::ListVfioNodes; nothing where the folder is not there or cannot be read, so that it
  // says nothing about devices.
  std::optional<std::set<std::string>> vfio_nodes;
  std::vector<host::EgmDevice> egm;  // by name; only those with a device node
  // What was known before, and what GPUs tell now.
  vgpu_types::KnownTypes known_types;
  std::vector<std::string> warnings;

  [[nodiscard]] const PassthroughFunction* Find(const gpu::PciAddress& address) const;
  [[nodiscard]] std::vector<const PassthroughFunction*> InGroup(std::uint32_t group) const;
};

// `sys` has /sys and `dev` has /dev: a container may see the host's devices elsewhere than its own.
// An error when devices cannot be listed at all, or iommufd cannot be told.
base::Result<Machine> ReadMachine(const host::Root& sys, const host::Root& dev,
                                  vgpu_types::KnownTypes known_types = {});

}  // namespace pitcrew::node::sandbox_device_plugin
