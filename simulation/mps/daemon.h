// The MPS control daemon: a socket in the pipe folder, log files, clients that come and go.
#pragma once

#include <filesystem>
#include <string>

namespace pitcrew::simulation {

struct MpsFolders {
  std::filesystem::path pipe;
  std::filesystem::path log;
};
// From the environment.
MpsFolders FindMpsFolders();

// Serves until `quit`, or until a signal to end comes. `ready_fd`, unless -1, gets one byte when
// clients can connect. Exit code; what went wrong is on standard error.
int RunMpsDaemon(const MpsFolders& folders, int ready_fd);

// Sends every line of standard input to the daemon and prints the answers. Exit code: 1 when there
// is no daemon, or when a command failed.
int SendMpsCommands(const MpsFolders& folders);

}  // namespace pitcrew::simulation
