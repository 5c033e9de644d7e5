// The simulated nvidia-cuda-mps-control. It runs in any container that has the driver's files, so
// it needs glibc and nothing else.
#include <fcntl.h>
#include <unistd.h>

#include <exception>
#include <iostream>
#include <string_view>

#include "simulation/mps/daemon.h"

namespace {

using namespace pitcrew::simulation;

constexpr const char* kUsage =
    "Usage: nvidia-cuda-mps-control [-d | -f | -h]\n"
    "  -d  start the MPS control daemon in the background\n"
    "  -f  start it in the foreground\n"
    "  -h  this text\n"
    "Without an option, commands are read from standard input: get_server_list,\n"
    "start_server -uid UID, get_client_list, quit, get_default_active_thread_percentage,\n"
    "set_default_active_thread_percentage PERCENT, get_default_device_pinned_mem_limit DEVICE,\n"
    "set_default_device_pinned_mem_limit DEVICE LIMIT.\n"
    "Simulated: part of Pitcrew's simulated driver.\n";

// The parent waits until clients can connect.
int StartInBackground(const MpsFolders& folders) {
  int ready[2];
  if (::pipe2(ready, O_CLOEXEC) != 0) return 1;
  const pid_t child = ::fork();
  if (child < 0) return 1;
  if (child == 0) {
    ::close(ready[0]);
    ::setsid();
    if (const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC); null >= 0) {
      ::dup2(null, STDIN_FILENO);
      ::dup2(null, STDOUT_FILENO);
    }
    ::_exit(RunMpsDaemon(folders, ready[1]));
  }
  ::close(ready[1]);
  char byte = 0;
  return ::read(ready[0], &byte, 1) == 1 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string_view option = argc > 1 ? argv[1] : "";
  const MpsFolders folders = FindMpsFolders();
  if (argc == 1) return SendMpsCommands(folders);
  if (argc == 2 && option == "-d") return StartInBackground(folders);
  if (argc == 2 && option == "-f") return RunMpsDaemon(folders, -1);
  const bool help = argc == 2 && (option == "-h" || option == "--help");
  (help ? std::cout : std::cerr) << kUsage;
  return help ? 0 : 2;
} catch (const std::exception& error) {
  std::cerr << "nvidia-cuda-mps-control: " << error.what() << "\n";
  return 1;
}
