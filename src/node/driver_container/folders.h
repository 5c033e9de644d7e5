// Files and folders of the image that are made, copied and linked while a driver is installed.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace pitcrew::node::driver_container {

base::Status MakeFolders(const std::filesystem::path& folder);
base::Result<std::filesystem::path> MakeTemporaryFolder();
// With everything below it, over what is there; links stay links.
base::Status CopyOver(const std::filesystem::path& from, const std::filesystem::path& to);
base::Result<std::vector<std::filesystem::path>> FilesThatEndWith(
    const std::filesystem::path& folder, std::string_view ending);
// A link that leads there already is left alone; another one is replaced.
base::Status Link(const std::filesystem::path& target, const std::filesystem::path& link);

}  // namespace pitcrew::node::driver_container
