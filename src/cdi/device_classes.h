// The classes of CDI devices beside GPUs: which device nodes a container gets for GPUDirect
// Storage, GDRCopy, RDMA and NVSwitches (device-plugin.md section 16, container-toolkit.md section
// 6). A class is a row of a table.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pitcrew::cdi {

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
// How a class's mounts are mounted.
std::vector<std::string> ClassMountOptions();

// The path of an IMEX channel's device, in every root.
std::string ImexChannelPath(std::int64_t channel);
inline constexpr std::int64_t kMostImexChannels = 1 << 20;  // numbers are below it

}  // namespace pitcrew::cdi
