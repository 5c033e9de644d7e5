// CDI specifications of the classes beside GPUs (cdi/device_classes.h) and of IMEX channels; GPUs
// and the management class are in generate.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cdi/device_classes.h"
#include "cdi/spec.h"
#include "host/root.h"

namespace pitcrew::cdi_generate {

using cdi::DeviceClass;
using cdi::DeviceClasses;
using cdi::FindDeviceClass;
using cdi::ImexChannelPath;

// Where things are: as this process sees them, and as the host names them.
struct ClassRoots {
  host::Root driver;
  host::Root dev;  // the folder with dev/
  std::string driver_on_host = "/";
  std::string dev_on_host = "/";
  // A container's processes get the groups of nodes that are not for everybody.
  bool additional_gids = true;
};

// One device "all" with everything of the class; the nodes without their numbers, which the
// container runtime reads when it starts a container: they change when a module is loaded again;
// nothing when the node has no device of it.
base::Result<std::optional<cdi::Spec>> GenerateClass(const DeviceClass& device_class,
                                                     std::string_view vendor,
                                                     const ClassRoots& roots);

// Kind <vendor>/imex-channel: a device for each channel, named by its number.
cdi::Spec GenerateImexChannels(std::span<const std::int64_t> channels, std::string_view vendor,
                               const ClassRoots& roots);

}  // namespace pitcrew::cdi_generate
