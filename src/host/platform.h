// What kind of machine the GPUs are in, where drivers differ in more than their version
// (device-plugin.md 5.2).
#pragma once

#include <filesystem>
#include <string_view>

#include "base/result.h"
#include "host/root.h"

namespace pitcrew::host {

// kUnsupported "WslNotSupported" under the Windows subsystem for Linux (the driver's libraries
// include libdxcore.so), "TegraNotSupported" on a Tegra system without NVML. `driver_root` is the
// driver's as this process sees it.
base::Status RefuseUnsupportedPlatform(const Root& driver_root);

// kUnsupported "TegraNotSupported" for the name of an integrated GPU, which NVML tells.
base::Status RefuseIntegratedGpu(std::string_view gpu_name);

}  // namespace pitcrew::host
