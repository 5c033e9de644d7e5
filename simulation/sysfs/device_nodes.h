// /dev/vfio and /dev/iommu as the kernel's VFIO makes them: by group, and by device where it has
// iommufd.
#pragma once

#include <filesystem>
#include <set>

#include "base/result.h"
#include "simulation/sysfs/machine.h"

namespace pitcrew::simulation::sysfs {

class DeviceNodes {
 public:
  // `dev` empty: no nodes are made.
  explicit DeviceNodes(std::filesystem::path dev) : dev_(std::move(dev)) {}

  // Makes what is missing and removes what is there and should not be. Character devices of a major
  // that no driver of the running kernel has: opening them fails.
  base::Status Reconcile(const Machine& machine);

 private:
  std::filesystem::path dev_;
};

}  // namespace pitcrew::simulation::sysfs
