// Mode wsl: the driver that a Windows host lends to its subsystem for Linux (container-toolkit.md
// 6.9).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cdi/generate/driver_files.h"
#include "cdi/generate/generate.h"
#include "cdi/generate/locate.h"
#include "cdi/spec.h"

namespace pitcrew::cdi_generate {

struct WslFiles {
  std::string store;  // NVIDIA's driver store
  std::vector<File> driver;
  std::vector<File> more;  // whatever else of the store may be a part of the driver
  std::optional<File> dxcore;
  std::optional<Node> device;  // /dev/dxg
  std::vector<std::string> missing;
};

// `stores` are folders inside the driver root (host::ReadDriverStores). kNotFound
// "WslDriverNotFound" when none is NVIDIA's.
base::Result<WslFiles> LocateWsl(const LocateOptions& options,
                                 const std::vector<std::string>& stores);

// One device "all". kNotFound "NoDeviceNodes" without /dev/dxg.
base::Result<cdi::Spec> GenerateWsl(const WslFiles& files, const Options& options);

}  // namespace pitcrew::cdi_generate
