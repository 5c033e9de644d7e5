// Finds a driver's files (container-toolkit.md 6.3, 6.5, 6.6). What is not there is left out; only
// a folder that cannot be read is an error.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cdi/generate/driver_files.h"
#include "host/root.h"

namespace pitcrew::cdi_generate {

struct LocateOptions {
  host::Root driver_root;  // as this process sees it
  host::Root dev_root;     // the folder that has dev/
  // As NVML tells it; empty: taken from the name of libcuda.so.* or libnvidia-ml.so.*.
  std::string version;
  std::filesystem::path sys = "/sys";
  std::filesystem::path proc = "/proc";
  // Folders inside the driver root to look in; none: the usual ones.
  std::vector<std::string> library_folders = {};
  std::vector<std::string> config_folders = {};
  std::vector<std::string> program_folders = {};
  // Also libraries of the driver that do not have its version in their names (6.6).
  bool unversioned_libraries = false;
  // Of pipes to an MPS control daemon, inside the driver root; empty: not looked for.
  std::string mps_folder = {};
};

// What MPS itself takes: $CUDA_MPS_PIPE_DIRECTORY of this process, or /tmp/nvidia-mps.
std::string MpsFolder();

// kNotFound "DriverVersionUnknown" or "DriverLibrariesNotFound" when the root has no driver.
base::Result<DriverFiles> Locate(const LocateOptions& options);

// Only the character devices of a device root, without a driver.
base::Result<std::vector<Node>> LocateNodes(const host::Root& dev_root);
// The character device at a path inside; links are not followed.
std::optional<Node> LocateNode(const host::Root& dev_root, const std::string& path);
// What of `files` is about devices; needs no driver.
base::Status LocateDevices(const LocateOptions& options, DriverFiles& files);

// Lines "<capability> <minor>" of /proc/driver/nvidia-caps/mig-minors; bad lines are skipped.
std::map<std::string, std::uint32_t> ParseMigMinors(std::string_view text);

}  // namespace pitcrew::cdi_generate
