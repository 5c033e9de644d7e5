// A program started by a test; it ends with the test, also when the test crashes.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace pitcrew::testing {

// The program from $PITCREW_PROGRAMS, PATH, or the newest in $PITCREW_CACHE/programs (by default
// pitcrew/programs in the user's cache folder). kNotFound says where it was looked for.
base::Result<std::filesystem::path> FindProgram(const std::string& name);

// $PITCREW_CACHE/programs: what `make programs` has made.
std::filesystem::path ProgramsFolder();

class ChildProcess {
 public:
  // Standard output and error go to `log`, after what it holds already. To be called from a thread
  // that lives as long as the child may: the child is killed when that thread ends.
  static base::Result<std::unique_ptr<ChildProcess>> Start(
      const std::filesystem::path& program, const std::vector<std::string>& arguments,
      const std::filesystem::path& log);
  // Kills at once if the program still runs.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  [[nodiscard]] bool running();
  // SIGTERM and wait for the end.
  void Terminate();
  // SIGKILL and wait for the end.
  void Kill();
  // The last lines of the log.
  [[nodiscard]] std::string LogTail() const;

 private:
  ChildProcess(pid_t pid, std::filesystem::path log) : pid_(pid), log_(std::move(log)) {}
  void End(int signal_number);
  pid_t pid_;
  std::filesystem::path log_;
};

}  // namespace pitcrew::testing
