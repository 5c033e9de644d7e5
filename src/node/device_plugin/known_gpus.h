// The GPUs of a node over time: one that cannot be read now stays the GPU that it was.
#pragma once

#include <optional>
#include <set>

#include "gpu/inventory.h"

namespace pitcrew::node::device_plugin {

// Pure; not thread-safe.
class KnownGpus {
 public:
  struct View {
    // As read, but that a GPU which NVML could not read, or no longer lists, is what it was when it
    // could last be read, with the fault. One of which nothing was ever known has no UUID.
    gpu::Inventory now;
    // The same without the faults of GPUs that are known from before: for what is to stay as it
    // was.
    gpu::Inventory last_read;
  };

  // `pci_devices`: the addresses at which the NVIDIA driver may have a device; nullopt when they
  // cannot be told. A GPU that NVML no longer lists is gone only when its address is gone, too: the
  // device was taken out, or was given to another driver.
  View Update(gpu::Inventory read, const std::optional<std::set<gpu::PciAddress>>& pci_devices);

 private:
  std::vector<gpu::Device> before_;  // each as it was last read without a fault
};

}  // namespace pitcrew::node::device_plugin
