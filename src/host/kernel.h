// The running kernel: release, loaded modules, device majors. There is one kernel per node, so
// /proc of any container tells the node's values; the folders are arguments for the sake of tests
// and of /host mounts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/observed.h"
#include "base/result.h"

namespace pitcrew::host {

// As `uname -r`: /proc/sys/kernel/osrelease, trimmed.
base::Result<std::string> ReadKernelRelease(const std::filesystem::path& proc = "/proc");

// Names of all loaded modules, in the order of /proc/modules.
base::Result<std::vector<std::string>> ReadLoadedModules(
    const std::filesystem::path& proc = "/proc");

// Reference count of a loaded module from <sys>/module/<name>/refcnt; absent when it is not loaded
// (or built in: such a module has no refcnt). '-' in the name is read as '_'.
base::Observed<std::uint32_t> ReadModuleReferences(std::string_view name,
                                                   const std::filesystem::path& sys = "/sys");

// Which one of a module is loaded: the inode of its folder <sys>/module/<name>, which is another
// one each time that it is loaded. Absent when it is not; '-' in the name is read as '_'.
base::Observed<std::uint64_t> ReadModuleInstance(std::string_view name,
                                                 const std::filesystem::path& sys = "/sys");

// Majors of character devices from /proc/devices: {"nvidia": 195, "nvidia-uvm": 510, ...}.
base::Result<std::map<std::string, std::uint32_t>> ReadCharacterMajors(
    const std::filesystem::path& proc = "/proc");
std::map<std::string, std::uint32_t> ParseCharacterMajors(std::string_view text);

}  // namespace pitcrew::host
