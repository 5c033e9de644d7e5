// What a container gets for the devices that the kubelet chose (device-plugin.md sections 12 and
// 13).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "node/device_plugin/resources.h"
#include "node/device_plugin/settings.h"
#include "rpc/device_plugin.h"

namespace pitcrew::node::device_plugin {

inline constexpr std::string_view kCdiVendor = "k8s.device-plugin.nvidia.com";

// What allocation knows beyond settings and devices.
struct AllocationFacts {
  // Of /dev/nvidiactl, /dev/nvidia-uvm, /dev/nvidia-uvm-tools, /dev/nvidia-modeset: those that are
  // there, in this order.
  std::vector<std::string> control_nodes;
  // CDI classes with something in them, of gdrcopy, gds, mofed, in this order.
  std::vector<std::string> cdi_modes;
  // Channels that exist.
  std::vector<std::int64_t> imex_channels;
};

// Pure, apart from `request_id`, a text that is new for every call (a UUID). Errors are kInvalid
// and worded as upstream's.
base::Result<rpc::ContainerAllocation> Allocate(const std::string& resource,
                                                const std::vector<OfferedDevice>& devices,
                                                const std::vector<std::string>& ids,
                                                const Settings& settings,
                                                const AllocationFacts& facts,
                                                std::string_view request_id);

}  // namespace pitcrew::node::device_plugin
