// Mounts that the simulated driver makes, by mount(2).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"

namespace pitcrew::simulation {

// Mount points of the calling process at or below `path`, in the order in which they were made.
base::Result<std::vector<std::string>> MountsBelow(const std::filesystem::path& path);

// Detaches whatever is mounted at `path`, with everything below it; nothing mounted is fine.
base::Status UnmountAll(const std::filesystem::path& path);

// Shows `source` (a file) at `target`, which is made if need be.
base::Status BindFile(const std::filesystem::path& source, const std::filesystem::path& target);

// Shows an empty folder of its own at `target`, which must be there.
base::Status MountEmpty(const std::filesystem::path& target);

// Makes /sys/module/<name>/{refcnt,version,initstate} visible in this mount namespace, beside the
// modules that are there: a read-only overlay, for sysfs itself cannot be added to.
base::Status ShowKernelModule(const std::filesystem::path& sys_module, const std::string& name,
                              const std::string& version);

// Leaves what is mounted below /sys now (cgroups and the like) out of later recursive binds. Done
// before ShowKernelModule, whose mount is to be carried along.
void KeepSubmountsOfSysOut();

// Binds "/" recursively on `target`, as a driver container shows its root (driver-lifecycle.md
// section 9.8); whatever was mounted there is detached first.
base::Status MountRootAt(const std::filesystem::path& target);

}  // namespace pitcrew::simulation
