// Where a container's dynamic loader looks for libraries.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "shim/container_root.h"

namespace pitcrew::shim {

inline constexpr const char* kLoaderConfiguration = "/etc/ld.so.conf";

// Folders that /etc/ld.so.conf and the files that it includes name, in their order; without one,
// those of /etc/ld.so.conf.d. Comments and "hwcap" lines are skipped.
struct LoaderFolders {
  bool is_configured = false;           // there is an ld.so.conf
  std::vector<std::string> from_hooks;  // of 00-compat-*.conf and 00-nvcr-*.conf
  std::vector<std::string> others;
};
base::Result<LoaderFolders> ReadLoaderFolders(const ContainerRoot& root);

// Those that the loader and ldconfig of the image search without being told.
base::Result<std::vector<std::string>> SystemFolders(const ContainerRoot& root);
// Debian's own, where they are there: the loader may search them in an image that does not look
// like Debian's. Its ldconfig need not.
base::Result<std::vector<std::string>> FoldersOfDebiansLayout(const ContainerRoot& root);

}  // namespace pitcrew::shim
