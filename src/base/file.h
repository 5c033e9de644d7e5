// Whole-file reads and atomic writes.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"

namespace pitcrew::base {

// kNotFound when the file or a folder on the way is missing.
Result<std::string> ReadFile(const std::filesystem::path& path);

// Writes a temporary file beside `path`, syncs it and renames it over `path`, so a reader sees the
// old content or the new, never a part. Parent folders are made.
Status WriteFileAtomically(const std::filesystem::path& path, std::string_view content,
                           mode_t mode = 0644);

}  // namespace pitcrew::base
