// Where a driver's files are: on the host itself, or in the root of a driver container
// (validator.md 3, device-plugin.md 5.1, container-toolkit.md 6.3).
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "host/root.h"

namespace pitcrew::host {

// Mount points and host paths that upstream's manifests use.
inline constexpr std::string_view kHostMount = "/host";
inline constexpr std::string_view kDriverMount = "/driver-root";
inline constexpr std::string_view kNvmlLibrary = "libnvidia-ml.so.1";
inline constexpr std::string_view kCudaLibrary = "libcuda.so.1";
inline constexpr std::string_view kSmiProgram = "nvidia-smi";

// Folders below a driver root in the order of search. "/" is the root itself. Not those that a
// dynamic loader searches: which these are depends on its system (shim/loader_folders.h).
const std::vector<std::string>& LibraryFolders();
// The PATH of a system: where programs are that no driver brings.
std::span<const std::string_view> StandardProgramFolders();
// Order of the search for nvidia-smi on a host (validator.md 3.1), as whole paths.
std::span<const std::string_view> HostSmiPaths();

// The first regular file of that name in LibraryFolders(), with links followed inside the root.
// kNotFound names the root and the library.
base::Result<std::filesystem::path> FindLibrary(const Root& root, std::string_view file_name);
// The first executable, non-empty regular file of that name in the root itself, usr/bin, usr/sbin,
// bin and sbin. Returns the path
// under which it was found (not the resolved one), with the root in front.
base::Result<std::filesystem::path> FindProgram(const Root& root, std::string_view file_name);
// The same over `inside_paths`, which are whole paths inside the root.
base::Result<std::filesystem::path> FirstProgram(const Root& root,
                                                 std::span<const std::string_view> inside_paths);

// A driver's root and device root: as this process sees them and as the host names them. The five
// lines of the status file driver-ready are made from this (validator.md 3.5).
struct DriverRoot {
  bool is_host = false;
  std::string driver_root;            // host path: NVIDIA_DRIVER_ROOT
  std::string driver_root_container;  // where consumers mount it: DRIVER_ROOT_CTR_PATH
  std::string device_root;            // host path: NVIDIA_DEV_ROOT
  std::string device_root_container;  // DEV_ROOT_CTR_PATH
  bool operator==(const DriverRoot&) const = default;
};

// Whether a driver's root has its own /dev folder: then that is where the driver's devices are.
base::Result<bool> HasDevFolder(const Root& driver_root);

// A preinstalled driver: everything is the host's root (`host_root` is its path on the host, mostly
// "/").
DriverRoot HostDriver(const std::string& host_root);
// A containerised driver installed at `install_folder` on the host, which this process sees at
// `seen_at`. Its device root is the driver root only if that has a dev folder.
base::Result<DriverRoot> ContainerDriver(const std::string& host_root,
                                         const std::string& install_folder,
                                         const std::filesystem::path& seen_at);

}  // namespace pitcrew::host
