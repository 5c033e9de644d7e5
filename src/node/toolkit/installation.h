// The toolkit's files on the node (container-toolkit.md 4.7, 4.8).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "node/toolkit/options.h"

namespace pitcrew::node::toolkit {

// Text of the installed config.toml.
std::string RuntimeConfigText(const Options& options,
                              const std::vector<std::string>& low_level_runtimes);

// The program that the runtimes of an installation in this folder run; empty where there is none,
// or a config.toml that is none (then no runtime runs either, until it is written anew). An error
// where it cannot be read: containers that run may need what it names.
base::Result<std::string> InstalledLowLevel(const std::filesystem::path& toolkit_folder);

// The shim that is to be installed: below options.source_root, else beside this program, else in
// /usr/bin. kNotFound says where it was looked for.
base::Result<std::filesystem::path> FindShim(const Options& options);

// Makes options.toolkit_folder() what it should be: the shim, its other names as links,
// config.toml. Every file is replaced atomically and only when it differs, so containers can be
// created meanwhile (upstream deletes the folder first, 13 row 3). What an earlier installation
// left is removed last.
base::Status Install(const Options& options, const std::vector<std::string>& low_level_runtimes);

}  // namespace pitcrew::node::toolkit
