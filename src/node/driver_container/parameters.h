// What the driver's kernel modules are told: /drivers/<module>.conf of the pod, as one line of
// modprobe.d for each module (driver-lifecycle.md 9.5).
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace pitcrew::node::driver_container {

struct ModuleParameters {
  // By module, as nvidia-uvm; only modules that are told something.
  std::map<std::string, std::vector<std::string>> of_module;
  // False where NVreg_EnableGpuFirmware=0 says that GPUs run without firmware.
  bool uses_firmware = true;
};

// The parameters in the text of one file: a line each. Blank lines and comments are none.
std::vector<std::string> ParseParameters(std::string_view text);

// `branch`: from 580 on nvidia is told how memory that is coherent with the processor's is used.
base::Result<ModuleParameters> ReadModuleParameters(const std::filesystem::path& drivers,
                                                    unsigned branch);

// Writes <root>/etc/modprobe.d/<module>.conf for each module that is told something.
base::Status WriteModuleParameters(const ModuleParameters& parameters,
                                   const std::filesystem::path& root);

}  // namespace pitcrew::node::driver_container
