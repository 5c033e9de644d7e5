// Why a GPU cannot go to a virtual machine as the node is, each with what to do about it
// (virtualisation-and-olm.md section 4). Nothing here changes anything.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/result.h"
#include "host/pci.h"
#include "host/root.h"
#include "node/vfio/bundle.h"
#include "node/vfio/node.h"

namespace pitcrew::node::vfio {

// Reasons, the same in log, Event, `vfio-manage status` and `pitcrew doctor`.
inline constexpr std::string_view kIommuNotEnabled = "IommuNotEnabled";
inline constexpr std::string_view kIommuSwitchedOff = "IommuSwitchedOff";
inline constexpr std::string_view kIommuMissing = "IommuMissing";
inline constexpr std::string_view kNoIommuGroup = "NoIommuGroup";
inline constexpr std::string_view kGroupShared = "IommuGroupShared";
inline constexpr std::string_view kConsoleOnGpu = "ConsoleOnGpu";
inline constexpr std::string_view kFramebufferOnGpu = "FramebufferOnGpu";
inline constexpr std::string_view kVfioDriverMissing = "VfioDriverMissing";
inline constexpr std::string_view kGpuInUse = "GpuInUse";
inline constexpr std::string_view kFunctionsInUse = "VirtualFunctionsInUse";

// Nothing when the kernel translates addresses of devices. The kernel argument to set or to take
// away stands in the message.
std::optional<base::Error> CheckTranslation(const Translation& translation);

// Nothing when the bundle's IOMMU groups have no other holder.
std::optional<base::Error> CheckGroups(const Node& node, const Bundle& bundle);

// Nothing when no text console is shown by a driver of these functions.
base::Result<std::optional<base::Error>> CheckConsole(const host::Root& root, const Bundle& bundle);

// Nothing when no framebuffer of the firmware lies in the memory of the device. Before the device
// is bound this only foretells: vfio-pci of newer kernels (6.0) takes the framebuffer away by
// itself.
base::Result<std::optional<base::Error>> CheckFramebuffer(const host::Root& root,
                                                          const host::PciDevice& device);

struct MemoryRange {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::string name;
  bool operator==(const MemoryRange&) const = default;
};
// The firmware's framebuffers in the text of /proc/iomem.
std::vector<MemoryRange> ParseFramebuffers(std::string_view iomem);
// Memory of a device in the text of its attribute "resource": a line of three numbers for each
// region, zeros for one that it lacks.
std::vector<MemoryRange> ParseResources(std::string_view resource);

}  // namespace pitcrew::node::vfio
