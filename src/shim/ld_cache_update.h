// Hook update-ldcache: makes a container's dynamic loader find the driver libraries that were
// mounted into it. Upstream runs the host's ldconfig inside the container for that
// (container-toolkit.md 9.1); here the cache is written directly, so nothing runs and no host
// program is needed.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "shim/container_root.h"

namespace pitcrew::shim {

// Adds the libraries of `folders` (paths in the container) to /etc/ld.so.cache, makes their SONAME
// links where they are missing, and names the folders in /etc/ld.so.conf.d for later runs of
// ldconfig. A container without a cache gets one of all its library folders. For musl the folders
// go into /etc/ld-musl-<machine>.path.
base::Status UpdateLdCache(const ContainerRoot& root, const std::vector<std::string>& folders);

}  // namespace pitcrew::shim
