// The labels that describe a node's GPUs, as a pure function of what was read (feature-discovery.md
// section 4).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/plugin_config.h"
#include "base/error.h"
#include "base/observed.h"
#include "base/result.h"
#include "gpu/inventory.h"
#include "gpu/mig_strategy.h"
#include "gpu/pci_address.h"

namespace pitcrew::node::feature_discovery {

using Labels = std::map<std::string, std::string>;

// The host's side of a virtual GPU, found in PCI configuration space (section 5).
struct Vgpu {
  std::string host_driver_version;  // "460.16"
  std::string host_driver_branch;   // "r460_00"
  bool operator==(const Vgpu&) const = default;
};

struct Facts {
  gpu::Inventory gpus;
  // GPUs that NVML lists and that could never be read: they are none of `gpus`. On a node with GPUs
  // of one model they count as such.
  std::size_t unreadable_gpus = 0;
  std::optional<std::string> machine;                    // product name of the machine
  std::map<gpu::PciAddress, std::uint32_t> pci_classes;  // 24 bits, of the GPUs
  base::Observed<Vgpu> vgpu = base::Observed<Vgpu>::Missing();
  std::optional<std::int64_t> timestamp;  // seconds since 1970; nullopt: no such label
};

struct Description {
  Labels labels;
  std::vector<std::string> warnings;
};

// kInvalid "BadDriverVersion" when the driver's version has not two or three parts.
base::Result<Description> Describe(const Facts& facts, gpu::MigStrategy strategy,
                                   const api::Sharing& sharing);

// The text as part of a label value: only letters, digits, "-_." are kept, and runs of spaces
// become
// "-".
std::string Sanitise(std::string_view text);

}  // namespace pitcrew::node::feature_discovery
