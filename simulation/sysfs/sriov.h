// Virtual functions of GPUs by writes to a mounted /sys, simulated or not: what NVIDIA's
// sriov-manage does, for the driver itself cannot make them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"

namespace pitcrew::simulation::sysfs {

// Addresses of NVIDIA's physical functions that can have virtual ones.
base::Result<std::vector<std::string>> SriovGpus(const std::filesystem::path& sys);

// All of them, or none; the GPU is given back to the driver that it had. kNotFound when the GPU is
// not there; on a failure the GPU is back with its driver, too, where that can be done.
base::Status SetVirtualFunctions(const std::filesystem::path& sys, const std::string& address,
                                 bool present);

}  // namespace pitcrew::simulation::sysfs
