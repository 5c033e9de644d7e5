// Virtual GPUs, as a guest sees them in PCI configuration space (feature-discovery.md section 5).
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

#include "base/observed.h"
#include "base/result.h"
#include "node/feature_discovery/labels.h"

namespace pitcrew::node::feature_discovery {

// The bytes of the vendor-specific capability; empty when there is none. `config` must have at
// least 256 bytes.
std::string_view FindVendorCapability(std::string_view config);

// nullopt when the capability is not that of a virtual GPU. kInvalid "VgpuRecordMissing" when it
// is, and does not name the host's driver.
base::Result<std::optional<Vgpu>> ReadVgpu(std::string_view capability);

// Looks at every NVIDIA device below `pci_devices` (/sys/bus/pci/devices). Unknown when one of them
// cannot be read: configuration space needs privileges. Of several virtual GPUs the last one
// counts.
base::Observed<Vgpu> FindVgpu(const std::filesystem::path& pci_devices);

}  // namespace pitcrew::node::feature_discovery
