// A /sys and a /dev of a machine with simulated GPUs in a temporary folder, for tests of what
// writes to sysfs. Needs root and /dev/fuse, and the program pitcrew-simulate of the build.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "simulation/testing/process.h"

namespace pitcrew::simulation {

class SimulatedSysfs {
 public:
  // Whether this machine and this user can have one; a test that cannot skips itself.
  [[nodiscard]] static bool IsPossible();

  // `description` is YAML as for a node, with NVIDIA's driver loaded or not. `state`, when given,
  // is a state file that is told which GPUs the driver has. Aborts the test program when it cannot
  // be made.
  explicit SimulatedSysfs(const std::string& description, bool load_driver = true,
                          const std::filesystem::path& state = {});
  ~SimulatedSysfs();
  SimulatedSysfs(const SimulatedSysfs&) = delete;
  SimulatedSysfs& operator=(const SimulatedSysfs&) = delete;

  // Has sys/ and dev/: a host::Root.
  [[nodiscard]] const std::filesystem::path& root() const { return root_; }
  [[nodiscard]] std::filesystem::path sys() const { return root_ / "sys"; }
  [[nodiscard]] std::filesystem::path dev() const { return root_ / "dev"; }

  // One command of the simulation, for example "fault 0000:1b:00.0 bind EBUSY". Aborts when it is
  // refused.
  void Command(const std::string& line) const;

 private:
  std::filesystem::path root_;
  std::unique_ptr<Process> program_;
};

}  // namespace pitcrew::simulation
