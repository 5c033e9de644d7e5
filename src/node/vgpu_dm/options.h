// Flags and variables of the subcommands (vgpu-device-manager.md section 2).
#pragma once

#include "base/subcommands.h"

namespace pitcrew::node::vgpu_dm {

const base::Subcommands& CommandLines();

}  // namespace pitcrew::node::vgpu_dm
