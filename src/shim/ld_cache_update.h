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

// Makes /etc/ld.so.cache what ldconfig would make it (of one name the library of the folder that is
// searched first), with the libraries of `folders` (paths in the container), makes their SONAME
// links where they are missing, and names the folders in /etc/ld.so.conf.d for later runs of
// ldconfig. What the image's cache tells of folders that ldconfig would not search stays, behind
// all else. For musl the folders go into /etc/ld-musl-<machine>.path.
base::Status UpdateLdCache(const ContainerRoot& root, const std::vector<std::string>& folders);

}  // namespace pitcrew::shim
