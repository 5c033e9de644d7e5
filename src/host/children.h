// The processes that this one is the parent of, those that it adopted included.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace pitcrew::host {

// From now on a process that a descendant of this one leaves behind, as a daemon is left behind by
// the program that starts it, becomes a child of this one: its end is told by SIGCHLD and waitpid.
// Without this it becomes one of the first process of its PID namespace. Lasts as long as this
// process; Linux 3.4.
base::Status AdoptOrphans();

// Running children of `parent`, by number; those that have ended and are not reaped are left out.
base::Result<std::vector<pid_t>> ListChildren(pid_t parent,
                                              const std::filesystem::path& proc = "/proc");

// Whether the process was started with exactly this variable ("NAME=value"). False for one that has
// ended.
base::Result<bool> WasStartedWith(pid_t pid, std::string_view variable,
                                  const std::filesystem::path& proc = "/proc");

}  // namespace pitcrew::host
