// The CDI specifications of the plugin's devices (device-plugin.md section 16).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "gpu/inventory.h"
#include "host/root.h"
#include "node/device_plugin/settings.h"

namespace pitcrew::node::device_plugin {

// Where the driver and its device nodes are, as this process sees them.
struct DriverRoots {
  host::Root driver;
  host::Root dev;  // the folder with dev/: the driver's if it has one, else "/"
};
// An error when it cannot be told whether the driver has one (host::HasDevFolder).
base::Result<DriverRoots> FindRoots(const std::filesystem::path& driver_root_in_here);

// Writes one file per class into `folder`; files that are right already are left alone. Returns the
// classes of gdrcopy, gds, mofed that have something in them. Any error means that containers could
// not get what they were promised.
base::Result<std::vector<std::string>> WriteCdiFiles(
    const std::filesystem::path& folder, const gpu::Inventory& inventory, const DriverRoots& roots,
    const Options& options, const Settings& settings,
    const std::vector<std::int64_t>& imex_channels);

// Those of the wanted channels whose device exists. kNotFound when one is missing and required.
base::Result<std::vector<std::int64_t>> FindImexChannels(const DriverRoots& roots,
                                                         const Settings& settings);

}  // namespace pitcrew::node::device_plugin
