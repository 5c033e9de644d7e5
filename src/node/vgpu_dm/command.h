// `pitcrew vgpu-dm` and nvidia-vgpu-dm: applies, checks and shows the vGPUs of this node
// (vgpu-device-manager.md section 2).
#pragma once

#include <filesystem>

namespace pitcrew::node::vgpu_dm {

// Exit codes as upstream's: 0 done, 1 anything else, usage included.
int Command(int argc, char** argv);

// The same on a node whose /sys and /proc lie below `root`, for tests.
int CommandAt(const std::filesystem::path& root, int argc, const char* const* argv);

}  // namespace pitcrew::node::vgpu_dm
