// Running one program of the node and waiting for its end: never through a shell.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace pitcrew::host {

struct ProgramRun {
  std::string program;  // absolute path, inside `root` when there is one
  std::vector<std::string> arguments;
  std::map<std::string, std::string> environment;  // added to, or instead of, the own variables
  std::optional<std::filesystem::path> root;       // chroot into it; needs CAP_SYS_CHROOT
  bool capture_output = false;                     // else it goes where the own output goes
  // When it is over: killed at the deadline (kTimeout) or when this becomes readable (kCancelled).
  std::optional<std::chrono::steady_clock::time_point> deadline;
  int stop_fd = -1;
};

struct ProgramEnd {
  int exit_status = 0;  // 128 + the signal when a signal ended it
  std::string output;   // standard output and error together, when captured
};

// An exit status other than 0 is not an error here; a program that cannot be started is.
base::Result<ProgramEnd> RunProgram(const ProgramRun& run);

}  // namespace pitcrew::host
