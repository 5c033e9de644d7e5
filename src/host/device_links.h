// Links in the host's /dev/char, without which runc cannot give a container a device that no kernel
// driver has registered (validator.md 3.4).
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "base/result.h"
#include "host/device_node.h"

namespace pitcrew::host {

// Makes the control nodes that are missing in `dev` where the driver's majors are known.
base::Status EnsureControlDevices(const std::filesystem::path& dev,
                                  const std::map<std::string, std::uint32_t>& majors);

// For every NVIDIA device in `dev`, links <links>/<major>:<minor> to `target_folder`/<name>, which
// is a path on the host. A link that points elsewhere is corrected; one that names the same node
// relatively (udev's way) stays. The number of links that are right afterwards.
base::Result<int> LinkDevices(const std::filesystem::path& dev,
                              const std::filesystem::path& target_folder,
                              const std::filesystem::path& links);

}  // namespace pitcrew::host
