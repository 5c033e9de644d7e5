// The tree as a file system that programs use, by FUSE: what is written has its effect, and
// everything that follows from it outside the tree: device nodes in /dev/vfio, the kernel's
// announcements, and which GPUs NVML has.
#pragma once

#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/result.h"
#include "simulation/state/state_file.h"
#include "simulation/sysfs/device_nodes.h"
#include "simulation/sysfs/machine.h"
#include "simulation/sysfs/register_bus.h"
#include "simulation/sysfs/tree.h"
#include "simulation/sysfs/uevents.h"

namespace pitcrew::simulation::sysfs {

struct FileSystemOptions {
  std::filesystem::path state;  // of the simulated NVML; may not exist yet. Empty: none
  std::filesystem::path dev;    // has vfio/; empty: no device nodes
  bool uevents = true;          // announce to this network namespace, where that is allowed
  Surroundings surroundings;
};

// Of all threads.
class FileSystem {
 public:
  FileSystem(Machine machine, FileSystemOptions options);

  // The tree as it is now. Looks first whether MIG has changed in the state, and who uses the
  // driver.
  std::shared_ptr<const Tree> Current();
  // One write to `path`: 0 or an errno. Waits, as the kernel does, while a virtual machine has the
  // device that is to leave its driver, and while programs have a GPU open that is to leave
  // NVIDIA's.
  Errno Store(std::string_view path, std::string_view value);
  // This thread of another process has opened registers: what it does to them is carried out.
  Errno FollowRegisters(pid_t thread) { return bus_.Follow(thread); }

 private:
  void Settle();
  void TakeMig();
  void TakeDriverUsers();
  bool StateWasReplaced() const;
  void TellState();
  [[nodiscard]] const Device* Leaving(std::string_view path, std::string_view value) const;
  void AwaitUsers(std::unique_lock<std::mutex>& lock, std::string_view path,
                  std::string_view value);
  std::shared_ptr<StateFile> State();

  std::mutex mutex_;
  std::condition_variable changed_;
  Machine machine_;
  FileSystemOptions options_;
  DeviceNodes nodes_;
  UeventSender uevents_;
  std::shared_ptr<const Tree> tree_;
  std::shared_ptr<StateFile> state_;
  std::uint32_t state_seen_ = 0;
  RegisterBus bus_;  // ends first
};

// Mounts it at `folder` and serves until it is unmounted or the process gets SIGTERM, SIGINT or
// SIGHUP, and is then unmounted. `mounted` is called when programs can use it.
base::Status Serve(FileSystem& files, const std::filesystem::path& folder,
                   const std::function<base::Status()>& mounted);

}  // namespace pitcrew::simulation::sysfs
