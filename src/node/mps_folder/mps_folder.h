// The MPS folder of a node, /run/nvidia/mps, which its containers see at /mps: what the MPS control
// daemon and the device plugin tell each other (device-plugin.md section 17).
#pragma once

#include <filesystem>
#include <string_view>

#include "base/file_descriptor.h"
#include "base/result.h"

namespace pitcrew::node::mps_folder {

// Where it is in every container that has it.
inline constexpr std::string_view kFolder = "/mps";

// Names of what is in it. A value.
class MpsFolder {
 public:
  explicit MpsFolder(std::filesystem::path path = kFolder) : path_(std::move(path)) {}

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  // Of one shared resource: "nvidia.com/gpu".
  [[nodiscard]] std::filesystem::path ResourceFolder(std::string_view resource) const {
    return path_ / resource;
  }
  // Where clients meet their server: CUDA_MPS_PIPE_DIRECTORY.
  [[nodiscard]] std::filesystem::path PipeFolder(std::string_view resource) const {
    return ResourceFolder(resource) / "pipe";
  }
  // CUDA_MPS_LOG_DIRECTORY.
  [[nodiscard]] std::filesystem::path LogFolder(std::string_view resource) const {
    return ResourceFolder(resource) / "log";
  }
  // There while the resource's server takes clients and has its limits.
  [[nodiscard]] std::filesystem::path StartedFile(std::string_view resource) const {
    return ResourceFolder(resource) / ".started";
  }
  // There while every resource that is to be shared has its server.
  [[nodiscard]] std::filesystem::path ReadyFile() const { return path_ / ".ready"; }
  // The tmpfs that clients and servers share as /dev/shm.
  [[nodiscard]] std::filesystem::path ShmFolder() const { return path_ / "shm"; }
  // The control daemon's sign of life; a FIFO. Not upstream's.
  [[nodiscard]] std::filesystem::path LifeSignFile() const { return path_ / ".alive"; }

 private:
  std::filesystem::path path_;
};

// What a control daemon holds while it lives. The kernel drops it with the process, however that
// ends; what is left of its files then counts for nothing. The file itself stays for the next one.
class LifeSign {
 public:
  // Makes the folder, and removes what a daemon that was killed has left in it: its .started and
  // .ready files. kUnavailable "AlreadyRunning" when another daemon lives.
  static base::Result<LifeSign> Give(const MpsFolder& folder);

 private:
  LifeSign(base::FileDescriptor lock, base::FileDescriptor fifo)
      : lock_(std::move(lock)), fifo_(std::move(fifo)) {}

  base::FileDescriptor lock_;
  base::FileDescriptor fifo_;  // open for writing, which its readers notice the end of
};

}  // namespace pitcrew::node::mps_folder
