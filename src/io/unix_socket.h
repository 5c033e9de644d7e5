// Connecting to a program of the same machine.
#pragma once

#include <filesystem>

#include "base/file_descriptor.h"
#include "base/result.h"

namespace pitcrew::io {

// A connected stream socket that does not block. Never waits: it is connected at once, or nobody
// takes it now. Errors are errno's ("connect to PATH").
base::Result<base::FileDescriptor> ConnectUnix(const std::filesystem::path& path);

}  // namespace pitcrew::io
