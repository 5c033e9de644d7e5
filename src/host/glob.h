// Shell patterns of whole paths, inside a root.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "host/root.h"

namespace pitcrew::host {

// What matches "/dev/nvhost-*": paths as processes of that root name them, by folders, then names.
// "*" stands for no "/", and links to folders are followed inside the root. A pattern without
// wildcards is itself, when something (a broken link counts) is there. A folder that cannot be read
// is an error.
base::Result<std::vector<std::string>> Glob(const Root& root, std::string_view pattern);

// Names in a folder of the root, sorted; none when it is missing.
base::Result<std::vector<std::string>> NamesIn(const Root& root, const std::string& folder);

// Whether a file's name fits the pattern.
bool FitsName(const std::string& pattern, const std::string& name);

// Whether a whole path fits the pattern; one that begins with "**/" is for the last part alone.
bool FitsPattern(const std::string& pattern, const std::string& path);

}  // namespace pitcrew::host
