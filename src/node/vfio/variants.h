// Which VFIO driver a function gets, and that the kernel has it (vfio-manager.md sections 4 and 5).
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "host/modalias.h"
#include "host/pci.h"
#include "node/vfio/node.h"

namespace pitcrew::node::vfio {

class Variants {
 public:
  // The aliases of the running kernel's modules. A kernel without a list of them has no variants.
  static base::Result<Variants> Read(const Settings& settings);

  // The module made for this function, "vfio-pci" when none is.
  [[nodiscard]] base::Result<std::string> ModuleFor(const host::PciDevice& function) const;

  // The name of the module's PCI driver ("vfio_pci" has "vfio-pci"), which is loaded when the
  // kernel does not have it yet. kUnavailable "VfioDriverMissing" tells why it does not.
  [[nodiscard]] base::Result<std::string> LoadDriver(const std::string& module) const;
  // The same without loading; kNotFound while it is not loaded.
  [[nodiscard]] base::Result<std::string> FindDriver(const std::string& module) const;

 private:
  Variants(Settings settings, std::string release, std::vector<host::VfioAlias> aliases)
      : settings_(std::move(settings)),
        release_(std::move(release)),
        aliases_(std::move(aliases)) {}

  Settings settings_;
  std::string release_;  // of the kernel
  std::vector<host::VfioAlias> aliases_;
};

}  // namespace pitcrew::node::vfio
