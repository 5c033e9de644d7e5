// Running a program of the host: the engine's own configuration dump, systemctl. No shell, no
// environment of ours, output bounded, ended at a deadline.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/file_descriptor.h"
#include "base/result.h"

namespace pitcrew::node::toolkit {

struct Program {
  std::filesystem::path root;          // becomes "/" for the program; empty or "/": no change
  std::filesystem::path path;          // inside root; ignored when `executable` is open
  base::FileDescriptor executable;     // an already opened program (/proc/PID/exe)
  std::vector<std::string> arguments;  // without argv[0]
};

// Standard output. kNotFound when there is no such program; kInternal "ProgramFailed" with the exit
// status and the end of standard error; kTimeout at the deadline.
base::Result<std::string> RunProgram(const Program& program,
                                     base::SteadyClock::time_point deadline);

// The first of the six standard folders below `root` that has an executable of that name, as a path
// inside the root.
base::Result<std::filesystem::path> FindHostProgram(const std::filesystem::path& root,
                                                    std::string_view name);

}  // namespace pitcrew::node::toolkit
