// What kind of machine the GPUs are in, where drivers differ in more than their version
// (device-plugin.md 5.2).
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "host/root.h"

namespace pitcrew::host {

enum class Platform {
  kGpus,   // what NVML tells
  kTegra,  // an integrated GPU
  kWsl,    // the Windows subsystem for Linux
};

// Upstream's order: WSL where the root has libdxcore.so; Tegra where it has Tegra's files and no
// NVML, or where one of `gpu_names`, which NVML tells, is an integrated GPU's.
Platform FindPlatform(const Root& driver_root, std::span<const std::string> gpu_names);

bool IsIntegratedGpuName(std::string_view gpu_name);

// kUnsupported "WslNotSupported" under the Windows subsystem for Linux (the driver's libraries
// include libdxcore.so), "TegraNotSupported" on a Tegra system without NVML. `driver_root` is the
// driver's as this process sees it.
base::Status RefuseUnsupportedPlatform(const Root& driver_root);

// kUnsupported "TegraNotSupported" for the name of an integrated GPU, which NVML tells.
base::Status RefuseIntegratedGpu(std::string_view gpu_name);

}  // namespace pitcrew::host
