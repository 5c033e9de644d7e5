// Is there a driver that works, and where are its files (validator.md 3.1 to 3.3)?
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "host/driver_root.h"
#include "io/stop.h"
#include "node/validator/options.h"

namespace pitcrew::node::validator {

// nvidia-smi on a machine with many GPUs and no persistence mode needs most of a minute.
constexpr std::chrono::minutes kSmiTimeout{3};

struct FoundDriver {
  host::DriverRoot root;
  std::filesystem::path devices_seen_at;  // the device root's dev folder as this process sees it
  bool wsl = false;                       // Windows subsystem: no links in /dev/char
};

// A driver that is installed on the host itself. kNotFound: none there, or it does not work (its
// kernel modules are not loaded): then a container has to bring it.
base::Result<FoundDriver> CheckHostDriver(const Options& options, const io::StopToken& stop);

// This container started while the root of another driver container was mounted: what it has in
// the place of the driver's folder is that root, which is gone from the node, and no later one
// reaches it. Only a container that starts anew gets the node's folder.
inline constexpr std::string_view kFormerDriverMounted = "FormerDriverMounted";

// A driver whose root a container has mounted at driver_install_folder. Errors say what is missing
// yet.
base::Result<FoundDriver> CheckContainerDriver(const Options& options, const io::StopToken& stop);

// Asks NVML, in this process, whether the driver below `root` works and sees its GPUs; the
// libraries' own program is asked only when NVML cannot be used from here. `chroot` runs it in that
// root.
base::Status ProveDriver(const Options& options, const host::Root& root,
                         const std::filesystem::path& library, const std::filesystem::path& program,
                         bool chroot, const io::StopToken& stop);

}  // namespace pitcrew::node::validator
