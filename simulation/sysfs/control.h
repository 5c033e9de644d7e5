// The folder "simulation" of the tree: what no kernel has, for people and tests who let things
// happen. A command is one line written to "control"; simulation/README.md lists them.
#pragma once

#include <string_view>

#include "simulation/sysfs/machine.h"
#include "simulation/sysfs/tree.h"

namespace pitcrew::simulation::sysfs {

// Of "load nvidia VERSION while-used": NvidiaModule::goes_with_users.
inline constexpr std::string_view kWhileUsed = "while-used";

void AddControl(const Machine& machine, Tree& tree);

// EINVAL for a line that is no command; else the command's own answer.
Errno RunControl(Machine& machine, std::string_view line);

}  // namespace pitcrew::simulation::sysfs
