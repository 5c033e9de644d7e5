// Running one program of the node and waiting for its end: never through a shell, never for longer
// than its deadline, never more of its output than asked for.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "host/root.h"

namespace pitcrew::host {

struct ProgramRun {
  std::string program;  // absolute path, inside `root` when there is one
  std::vector<std::string> arguments;
  // Added to, or instead of, the own variables.
  std::map<std::string, std::string> environment;
  // False: the program gets `environment` and a PATH of the standard folders, nothing of ours.
  bool inherit_environment = true;
  std::optional<std::filesystem::path> root;  // chroot into it; needs CAP_SYS_CHROOT
  // Where it starts; empty: in our own working folder, or in the root.
  std::string working_folder;
  // An open file to execute in place of `program`, which then only is its argv[0]. Borrowed.
  int executable = -1;
  // What it finds on standard input, at most 4096 bytes (kInvalid "ProgramInputTooLong"); empty:
  // nothing.
  std::string input;
  bool capture_output = false;  // else it goes where the own output goes
  // Bytes of standard output; of standard error the last kilobytes are kept.
  std::size_t most_output = 1U << 20;
  // When it is over: the program and what it started (its process group) are killed at the deadline
  // (kTimeout) or when `stop_fd` becomes readable (kCancelled).
  std::optional<std::chrono::steady_clock::time_point> deadline;
  int stop_fd = -1;  // borrowed
};

struct ProgramEnd {
  int exit_status = 0;       // 128 + the signal when a signal ended it
  std::string output;        // standard output, when captured
  std::string error_output;  // the end of standard error, when captured
};

// An exit status other than 0 is not an error here; a program that cannot
// be started is (kNotFound, kDenied), and one that writes more than `most_output` (kInternal
// "ProgramOutputTooLong"). What a process that the program left behind still writes is not waited
// for.
base::Result<ProgramEnd> RunProgram(const ProgramRun& run);

// Standard output of a program that has to end with status 0: kInternal "ProgramFailed" tells the
// status and the end of standard error.
base::Result<std::string> ReadProgramOutput(ProgramRun run);

// The first executable of that name in a folder of the own PATH. kNotFound names the folders.
base::Result<std::filesystem::path> FindProgramInPath(std::string_view name);

// The first of the standard folders below `root` that has an executable of that name, as a path
// inside the root. kNotFound names the places.
base::Result<std::filesystem::path> FindStandardProgram(const Root& root, std::string_view name);

}  // namespace pitcrew::host
