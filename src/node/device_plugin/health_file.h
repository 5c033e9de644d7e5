// What a device plugin knows about its GPUs' health, for the one that comes after it.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "base/result.h"
#include "node/device_plugin/health.h"

namespace pitcrew::node::device_plugin {

// What a driver is that has been running since it took the GPUs: when the node boots or the
// driver's module is loaded anew, every GPU has been reset.
struct DriverInstance {
  std::string boot_id;          // /proc/sys/kernel/random/boot_id
  std::uint64_t module_id = 0;  // host::ReadModuleInstance of nvidia; 0: none is loaded
  bool operator==(const DriverInstance&) const = default;

  // An error when either cannot be read: then nothing can be remembered.
  static base::Result<DriverInstance> Read(const std::filesystem::path& proc,
                                           const std::filesystem::path& sys);
};

// A small file below /run, which the next boot empties. Removing it forgets everything.
class HealthFile {
 public:
  HealthFile(std::filesystem::path path, DriverInstance instance)
      : path_(std::move(path)), instance_(std::move(instance)) {}

  // Nothing when the file is not there, or was written under another driver instance. XIDs that
  // need a reset are left out where the driver does not tell what a GPU needs (before 570): nobody
  // could see their end. An error for a file that cannot be read or is of another form.
  [[nodiscard]] base::Result<std::map<std::string, GpuHealth>> Load() const;
  // Writes it, or removes it when there is nothing to remember; leaves it alone when it is right.
  base::Status Save(const std::map<std::string, GpuHealth>& known);

 private:
  const std::filesystem::path path_;
  const DriverInstance instance_;
  std::string written_;
};

}  // namespace pitcrew::node::device_plugin
