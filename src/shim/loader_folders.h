// Where a container's dynamic loader looks for libraries.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "shim/container_root.h"

namespace pitcrew::shim {

inline constexpr const char* kLoaderConfiguration = "/etc/ld.so.conf";

inline constexpr const char* kLoaderIncludes = "/etc/ld.so.conf.d";

// Folders that /etc/ld.so.conf and the files that it includes name, in the order in which ldconfig
// comes upon them, each once; without one, those of /etc/ld.so.conf.d. Comments and "hwcap" lines
// are skipped.
struct LoaderFolders {
  bool is_configured = false;  // there is an ld.so.conf
  std::vector<std::string> folders;
  // Index in `folders` at which those of another file of /etc/ld.so.conf.d would stand; 0 where
  // nothing would include it.
  std::size_t place_of_ours = 0;
};
// `ours` is the name of that file, which need not be there yet.
base::Result<LoaderFolders> ReadLoaderFolders(const ContainerRoot& root,
                                              const std::string& ours = "");

// Those that the loader and ldconfig of the image search without being told.
base::Result<std::vector<std::string>> SystemFolders(const ContainerRoot& root);
// Debian's own, where they are there: the loader may search them in an image that does not look
// like Debian's. Its ldconfig need not.
base::Result<std::vector<std::string>> FoldersOfDebiansLayout(const ContainerRoot& root);

}  // namespace pitcrew::shim
