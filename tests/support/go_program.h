// Go libraries as oracles: small programs over them, built once and run by tests.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"

namespace pitcrew::testing {

// The Go toolchain: on PATH, in Pitcrew's cache, or where Go's own installer puts it. kNotFound
// says where it was looked for.
base::Result<std::filesystem::path> FindGo();

// Builds the module in `folder` (of the source tree) into the build tree's bin/`name`.
base::Result<std::filesystem::path> BuildGoProgram(const std::filesystem::path& folder,
                                                   const std::string& name);

// Runs a program with `input` as its standard input; what it has written, or an error with what it
// has written to standard error.
base::Result<std::string> RunWithInput(const std::filesystem::path& program,
                                       std::string_view input);

}  // namespace pitcrew::testing
