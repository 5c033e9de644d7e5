// Modules beside the driver's own, each brought by a container of its own: nvidia-fs of GPUDirect
// Storage, gdrdrv of GDRCopy. They are compiled against the driver that is loaded
// (driver-lifecycle.md 10).
#pragma once

#include <string_view>

#include "base/result.h"
#include "io/stop.h"
#include "node/driver_container/options.h"

namespace pitcrew::node::driver_container {

struct Companion {
  std::string_view program;  // whose command `install` brings it
  std::string_view module;   // as its file is called
  std::string_view of;       // for people
  std::string_view package;  // which has its sources, on Debian and Ubuntu
  // The class in sysfs in which the kernel has its devices; "": it has none, and one device of its
  // own name, minor 0, which nobody makes a node for.
  std::string_view device_class;
};
inline constexpr Companion kCompanions[] = {
    {"nvidia-gds-driver", "nvidia-fs", "GPUDirect Storage", "nvidia-fs-dkms", "nvidia-fs-class"},
    {"nvidia-gdrcopy-driver", "gdrdrv", "GDRCopy", "gdrdrv-dkms", ""}};

// As soon as the driver is there, compiles the module of this image against it, unless the one that
// is loaded is of the same version, loads it, and makes its device nodes; the same again when
// another driver has come. Stays until `stop`, and success then: the module has gone, unless
// somebody uses it; then it goes with the driver.
base::Status RunCompanion(const Companion& companion, const Options& options,
                          const io::StopToken& stop);

}  // namespace pitcrew::node::driver_container
