// The kernel module of unified memory, without which CUDA does not start in a container.
#pragma once

#include <filesystem>

#include "base/result.h"
#include "host/root.h"

namespace pitcrew::node::validator {

// Loads nvidia-uvm from the host, where a driver of the host is loaded and its module is not: a
// driver container loads it itself, and on a host nobody does before the first program of root's
// uses CUDA (validator.md 3.4 loads it only together with the driver). False when there was nothing
// to do; errors are kernel_modules::Modules'.
base::Result<bool> LoadMemoryModule(const host::Root& host, const std::filesystem::path& proc);

}  // namespace pitcrew::node::validator
