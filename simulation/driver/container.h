// The life of a simulated driver container: what `nvidia-driver init` does to a node, and its
// undoing (driver-lifecycle.md sections 8.4 and 9). With sriov-manage among its files it is a vGPU
// manager, the driver of hosts whose GPUs are cut into vGPUs (section 11): it makes the GPUs'
// virtual functions, and takes them away before it goes.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "base/file_descriptor.h"
#include "base/result.h"
#include "simulation/state/layout.h"
#include "simulation/state/state_file.h"

namespace pitcrew::simulation {

// Paths as the driver container sees them.
struct ContainerPaths {
  std::filesystem::path root = "/";                  // its own root
  std::filesystem::path host_root = "/proc/1/root";  // the node's, through hostPID
  std::filesystem::path run = "/run/nvidia";         // shared with the node, mounts propagate
};

class DriverContainer {
 public:
  explicit DriverContainer(ContainerPaths paths) : paths_(std::move(paths)) {}

  // Loads the "driver": PID file, state, device nodes, kernel module, PCI devices, driver root,
  // status file; of a vGPU manager virtual functions, and no status file. What was there from an
  // earlier run is taken over, GPU state included. On an error everything that was done is undone.
  base::Status Start();
  // Undoes Start; goes on after errors and returns the first. Virtual functions that cannot be
  // taken away leave the driver as it is. On a simulated sysfs it waits for programs that use the
  // driver, for ever: a container that is killed meanwhile leaves it loaded (section 9.10).
  base::Status Stop();

  [[nodiscard]] const std::string& version() const { return version_; }

 private:
  base::Status Load();
  base::Status Unload();
  base::Status TakePidFile();
  base::Status LoadState();
  base::Status ShowDevices();
  base::Status ShowModule();
  [[nodiscard]] bool HasSimulatedSysfs() const;
  base::Status WriteDaemonStatus(const char* status);
  base::Status SetVirtualFunctions(bool present);
  [[nodiscard]] bool IsVgpuManager() const;
  [[nodiscard]] std::filesystem::path StatePath() const;
  [[nodiscard]] std::filesystem::path StateLibrary() const;
  [[nodiscard]] std::filesystem::path PciFolder() const;

  ContainerPaths paths_;
  std::string version_;
  base::FileDescriptor pid_file_;
  std::shared_ptr<StateFile> state_;  // as a user of the driver
  NodeState node_{};
};

}  // namespace pitcrew::simulation
