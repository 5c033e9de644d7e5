// The classes of CDI devices beside GPUs: what a container gets for GPUDirect Storage, GDRCopy,
// RDMA and IMEX (device-plugin.md section 16, container-toolkit.md section 6). A class is a row of
// a table; GPUs and the management class are in generate.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cdi/spec.h"
#include "host/root.h"

namespace pitcrew::cdi_generate {

// Device nodes of one folder, by the beginning of their names.
struct NodePattern {
  std::string_view folder;  // "/dev"
  std::string_view prefix;  // "gdrdrv"
};

struct DeviceClass {
  std::string_view name;  // "gds": devices are named <vendor>/gds=all
  std::vector<NodePattern> nodes;
  // Mounted read-only where the driver root has them, if there is any node.
  std::vector<std::string_view> mounts;
};

// All of them: gdrcopy, gds, mofed, nvswitch.
std::span<const DeviceClass> DeviceClasses();
// Null when there is no such class.
const DeviceClass* FindDeviceClass(std::string_view name);

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

// The path of an IMEX channel's device, in every root.
std::string ImexChannelPath(std::int64_t channel);
// Kind <vendor>/imex-channel: a device for each channel, named by its number.
cdi::Spec GenerateImexChannels(std::span<const std::int64_t> channels, std::string_view vendor,
                               const ClassRoots& roots);

}  // namespace pitcrew::cdi_generate
