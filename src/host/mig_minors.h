// Minor numbers of the capability devices of MIG instances, as the driver tells them in
// /proc/driver/nvidia-caps/mig-minors (device-plugin.md section 8.3).
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/result.h"

namespace pitcrew::host {

// /dev/nvidia-caps/nvidia-cap<minor> is the device of a value here. GPUs are named by their minor
// number, instances by NVML's ids.
struct MigMinors {
  std::map<std::pair<unsigned, unsigned>, unsigned> gpu_instances;  // GPU, GPU instance
  // GPU, GPU instance, compute instance
  std::map<std::tuple<unsigned, unsigned, unsigned>, unsigned> compute_instances;
  std::optional<unsigned> config;
  std::optional<unsigned> monitor;

  bool operator==(const MigMinors&) const = default;
};

// Lines of another form are skipped.
MigMinors ParseMigMinors(std::string_view text);
// The file's text, from the first of these /proc folders that has it: the own one, and the driver
// root's, for a sandbox that gives its containers a /proc without the drivers' files. kNotFound
// when the driver has no MIG capabilities.
base::Result<std::string> ReadMigMinorsText(const std::vector<std::filesystem::path>& proc_folders);
// Empty when the driver has no MIG capabilities.
base::Result<MigMinors> ReadMigMinors(const std::vector<std::filesystem::path>& proc_folders);

}  // namespace pitcrew::host
