// The vGPU types of a GPU model, from its profile.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/result.h"
#include "simulation/description/mapping.h"
#include "simulation/sysfs/vgpu.h"

namespace pitcrew::simulation {

// The block "vgpu" of a profile; without one, a GPU without types.
sysfs::Gpu ReadVgpus(Mapping& profile);

// Errors as LoadProfile.
base::Result<sysfs::Gpu> LoadVgpus(std::string_view profile, const std::filesystem::path& folder);

}  // namespace pitcrew::simulation
