// What a PCI device tells module loaders of itself, and which variant of the VFIO driver a kernel's
// modules.alias offers for it (vfio-manager.md section 4; Linux: file2alias.c, vfio_pci device
// tables).
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "host/pci.h"

namespace pitcrew::host {

// "pci:v000010DEd00002941sv000010DEsd00002046bc03sc02i00". Of a device each field is a number; in
// an alias it may be "*".
struct Modalias {
  // Vendor, device, subsystem vendor, subsystem device, base class, subclass, programming
  // interface.
  std::array<std::string, 7> fields;
  bool operator==(const Modalias&) const = default;
};

// kInvalid "MalformedModalias". What stands before the first ":" is not looked at.
base::Result<Modalias> ParseModalias(std::string_view text);
base::Result<Modalias> ReadModalias(const PciDevice& device);

// A driver that says of itself that it is made for these devices in place of vfio-pci.
struct VfioAlias {
  Modalias devices;
  std::string module;  // as the kernel calls it: "nvgrace_gpu_vfio_pci"
  bool operator==(const VfioAlias&) const = default;
};

// The lines "alias vfio_pci:... module" of modules.alias, in their order; lines of another form are
// passed over.
std::vector<VfioAlias> ParseVfioAliases(std::string_view modules_alias);

// The module whose alias is closest to the device (fewest "*"; of equally close ones the first);
// "vfio-pci" when none fits.
std::string BestVfioModule(const std::vector<VfioAlias>& aliases, const Modalias& device);

}  // namespace pitcrew::host
