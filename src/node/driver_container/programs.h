// Running the programs of a driver image: package tools, the installer, compilers.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "host/process.h"
#include "io/stop.h"

namespace pitcrew::node::driver_container {

struct ImageProgram {
  std::string purpose;                             // for the log: "compile the kernel modules"
  std::vector<std::string> words;                  // the program by name or path, and its arguments
  std::string folder;                              // where it starts; empty: where this process is
  bool reads_output = false;                       // else it goes into this container's own log
  std::map<std::string, std::string> variables{};  // besides this container's own
  std::optional<std::chrono::steady_clock::time_point> deadline{};  // an hour, where none is given
};

// What it wrote, where asked for. kNotFound "ProgramMissing" when the image has no such program;
// kInternal "ProgramFailed" when it ends with another status than 0; kCancelled on stop, kTimeout
// at the deadline: it is ended then, with all that it has started.
base::Result<std::string> RunImageProgram(const ImageProgram& program, const io::StopToken& stop);

// The same for who judges the exit status, and has to tell what the program said.
base::Result<host::ProgramEnd> RunToItsEnd(const ImageProgram& program, const io::StopToken& stop);

}  // namespace pitcrew::node::driver_container
