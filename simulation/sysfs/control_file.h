// Commands to a simulated sysfs that is mounted.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"

namespace pitcrew::simulation::sysfs {

// Whether the tree at `sys` is a simulated one.
bool IsSimulated(const std::filesystem::path& sys);

// Writes one command (control.h). kNotFound "NoSimulatedSysfs" when `sys` is none; kInvalid for a
// line that is no command; else by the command's errno.
base::Status WriteControl(const std::filesystem::path& sys, const std::string& line);

}  // namespace pitcrew::simulation::sysfs
