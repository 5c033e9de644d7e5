// The Windows subsystem for Linux tells of GPUs through libdxcore.so, and NVIDIA's driver for it
// lies in a folder of the Windows host, the driver store (container-toolkit.md 6.9, mode wsl).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "host/root.h"

namespace pitcrew::host {

inline constexpr std::string_view kDxCoreLibrary = "libdxcore.so";
inline constexpr std::string_view kWslLibraryFolder = "/usr/lib/wsl/lib";

// Where WSL puts it, then the folders of a driver's libraries. kNotFound "WslNotFound": this is no
// WSL.
base::Result<std::filesystem::path> FindDxCore(const Root& root);

// The folders of the display adapters' drivers (WDDM 2.7 or later), each once; not all of them are
// NVIDIA's. kUnsupported "DxCoreFunctionMissing", kUnavailable "DxCoreFailed".
base::Result<std::vector<std::string>> ReadDriverStores(const std::filesystem::path& library);

}  // namespace pitcrew::host
