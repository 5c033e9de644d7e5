// SELinux labels of files that containers share.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/result.h"

namespace pitcrew::host {

// What containers without privileges may read and write (container-selinux's name for it).
inline constexpr std::string_view kContainerFileLabel = "system_u:object_r:container_file_t:s0";

// Whether the node enforces or reports SELinux rules: only then its file system is there.
base::Result<bool> HasSelinux(const std::filesystem::path& sys = "/sys");

// Gives the folder and all below it that label; links themselves are labelled, not followed. An
// entry that vanishes meanwhile is none.
base::Status Relabel(const std::filesystem::path& folder, std::string_view label);

}  // namespace pitcrew::host
