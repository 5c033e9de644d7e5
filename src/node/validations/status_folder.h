// The status files with which the components of a node tell each other how far it is (validator.md
// 2).
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "api/labels.h"
#include "base/result.h"
#include "host/driver_root.h"
#include "io/stop.h"

namespace pitcrew::node::validations {

// Where it lies on a node, and in the pods that use it.
inline constexpr std::string_view kFolder = api::kValidationsDir;

inline constexpr const char* kDriverReady = "driver-ready";
inline constexpr const char* kToolkitReady = "toolkit-ready";
inline constexpr const char* kCudaReady = "cuda-ready";
inline constexpr const char* kPluginReady = "plugin-ready";
inline constexpr const char* kVfioPciReady = "vfio-pci-ready";
inline constexpr const char* kVgpuManagerReady = "vgpu-manager-ready";
inline constexpr const char* kHostVgpuManagerReady = "host-vgpu-manager-ready";
inline constexpr const char* kVgpuDevicesReady = "vgpu-devices-ready";
inline constexpr const char* kMofedReady = "mofed-ready";
inline constexpr const char* kCcManagerReady = "cc-manager-ready";
// What the node's GPUs are for: a value of the label nvidia.com/gpu.workload.config, and a newline.
inline constexpr const char* kWorkloadType = "workload-type";
// Written by the manager of confidential computing.
inline constexpr const char* kCcManagerContainerReady = ".cc-manager-ctr-ready";
// Written by the driver's startup probe.
inline constexpr const char* kDriverContainerReady = ".driver-ctr-ready";
// Written by driver containers that start daemons: "NotReady" or "Ready", which the probe looks at.
inline constexpr const char* kDriverDaemonsStatus = ".driver-daemons-status";

class StatusFolder {
 public:
  explicit StatusFolder(std::filesystem::path path) : path_(std::move(path)) {}

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  // Makes the folder; with `empty` its content is removed first.
  [[nodiscard]] base::Status Prepare(bool empty) const;
  // Replaces the file at once: a reader sees the old content or the new. Mode 0600 when there is
  // content, 0644 for an empty file.
  [[nodiscard]] base::Status Write(std::string_view name, std::string_view content = "") const;
  // A file that is not there is removed already.
  [[nodiscard]] base::Status Remove(std::string_view name) const;
  [[nodiscard]] base::Result<bool> Has(std::string_view name) const;
  // Waits until the file is there, by events of the folder, which need not exist yet. kTimeout
  // "NotValidated" at the deadline, kCancelled on stop.
  [[nodiscard]] base::Status Await(
      std::string_view name, const io::StopToken& stop,
      std::optional<std::chrono::steady_clock::time_point> deadline = std::nullopt) const;

 private:
  std::filesystem::path path_;
};

// The five lines of driver-ready (3.5).
std::string DriverReadyContent(const host::DriverRoot& driver);

// The flags of .driver-ctr-ready: a YAML mapping to booleans; nothing in it is an empty map.
base::Result<std::map<std::string, bool>> ParseDriverContainerReady(std::string_view text);

}  // namespace pitcrew::node::validations
