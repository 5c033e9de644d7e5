// The machine that a description means.
#pragma once

#include <filesystem>

#include "base/result.h"
#include "simulation/description/description.h"
#include "simulation/sysfs/machine.h"

namespace pitcrew::simulation::sysfs {

// Nothing has happened to it yet: NVIDIA's driver is not loaded. Errors as LoadProfile.
base::Result<Machine> MakeMachine(const Description& description,
                                  const std::filesystem::path& profile_folder);

}  // namespace pitcrew::simulation::sysfs
