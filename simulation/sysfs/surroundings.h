// The rest of the real /sys around a simulated tree that takes its place: the node's network, block
// devices, control groups, CPUs stay what they are.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/file_descriptor.h"
#include "base/result.h"
#include "simulation/sysfs/machine.h"
#include "simulation/sysfs/tree.h"

namespace pitcrew::simulation::sysfs {

// Made before the tree is mounted over `sys`, used afterwards.
class RealSys {
 public:
  // Holds what is at `sys` now.
  static base::Result<RealSys> Open(const std::filesystem::path& sys, const Machine& machine);

  [[nodiscard]] const Surroundings& surroundings() const { return surroundings_; }
  // Mounts the real folders into their places in the tree at `sys`.
  [[nodiscard]] base::Status MountInto(const std::filesystem::path& sys) const;

 private:
  void Plan(const std::filesystem::path& real, const Machine& machine);
  void PlanDevices(const std::filesystem::path& real, const Tree& simulated);
  void Mount(const std::string& path, bool folder);

  base::FileDescriptor folder_;
  Surroundings surroundings_;
  std::vector<std::string> mounts_;
};

}  // namespace pitcrew::simulation::sysfs
