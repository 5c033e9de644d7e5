// The files of a driver: libraries, nvidia-smi, device nodes.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"
#include "simulation/state/layout.h"

namespace pitcrew::simulation {

#if defined(__aarch64__)
inline constexpr const char* kDriverLibraryFolder = "usr/lib/aarch64-linux-gnu";
#else
inline constexpr const char* kDriverLibraryFolder = "usr/lib/x86_64-linux-gnu";
#endif

// Where the built files to install are.
struct DriverFiles {
  std::filesystem::path libraries;   // folder with libnvidia-ml.so.1 and libcuda.so.1
  std::filesystem::path nvidia_smi;  // the program
};
// Beside the running program: ../lib and ./nvidia-smi of a build tree, or where they are installed.
base::Result<DriverFiles> FindDriverFiles();

// Puts the driver's files below `root`: lib*.so.<version> with the links .so.1 and .so, nvidia-smi,
// and nvidia-cuda-mps-control when it is beside nvidia-smi.
base::Status InstallDriverFiles(const std::filesystem::path& root, const std::string& version,
                                const DriverFiles& files);

// The version of the driver whose files lie below `root`: the suffix of libnvidia-ml.so.<version>.
base::Result<std::string> InstalledVersion(const std::filesystem::path& root);

// Makes nvidia<minor>, nvidiactl, nvidia-uvm, nvidia-uvm-tools, nvidia-modeset in `dev`, mode 0666.
// Nodes that exist are kept. Majors: the registered 195 for GPUs, and one that no driver of the
// running kernel has for nvidia-uvm, so that opening them fails and touches nothing. With GPUs that
// can be divided also nvidia-caps (state/capabilities.h).
base::Status MakeDeviceNodes(const std::filesystem::path& dev, const NodeState& node);
void RemoveDeviceNodes(const std::filesystem::path& dev, const NodeState& node);

// Shows driver/nvidia-caps/mig-minors in `proc`; over a real /proc, which cannot be added to, by a
// mount on its empty folder driver, for this mount namespace.
base::Status ShowMigMinors(const std::filesystem::path& proc, const NodeState& node);

}  // namespace pitcrew::simulation
