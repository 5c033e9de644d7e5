// Device nodes of MIG capabilities, /dev/nvidia-caps/nvidia-cap<minor>, and the list of their
// numbers that a kernel driver shows in /proc/driver/nvidia-caps/mig-minors. As nvidia-modprobe
// does, which NVML starts: nodes come with their instances and stay when these go.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "simulation/state/layout.h"

namespace pitcrew::simulation {

// Of the range for dynamic majors, those that no driver of this kernel has.
[[nodiscard]] unsigned UvmMajor();
[[nodiscard]] unsigned CapabilitiesMajor();

// "config 1", "monitor 2", "gpu0/gi0/access 3", ...: every instance that the node's GPUs can have.
[[nodiscard]] std::string MigMinorsText(const NodeState& node);

// Makes the nodes of configuration, monitoring and all instances that exist; nothing on a node
// without a GPU that can be divided. Zero, or the errno of what could not be made.
[[nodiscard]] int MakeCapabilityNodes(const std::filesystem::path& dev, const NodeState& node);

// Where a library that lies at `library` shows capabilities: in the dev folders of its driver root
// and of its process, as far as they have a driver's nodes.
[[nodiscard]] std::vector<std::filesystem::path> CapabilityFolders(
    const std::filesystem::path& library);

}  // namespace pitcrew::simulation
