// The modes of nvidia-ctk cdi generate (container-toolkit.md 6.9, 6.10).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cdi/generate/classes.h"
#include "cdi/generate/generate.h"
#include "cdi/generate/locate.h"
#include "cdi/spec.h"
#include "gpu/inventory.h"

namespace pitcrew::node::ctk {

struct TegraFlags {
  std::vector<std::string> lists;
  std::vector<std::string> ignored_links;
  std::string compat_root;  // "": the usual one
  bool one_device = false;
};

struct GenerateRequest {
  cdi_generate::Options options;
  bool sockets = true;  // of persistenced, fabric manager and MPS
  TegraFlags tegra;
  bool unversioned_libraries = false;
  std::vector<std::string> library_folders;  // as they were given
  std::vector<std::string> config_folders;   // inside the driver root; none: the usual ones
  std::vector<std::string> program_folders;  // the same
};

// Absolute paths, seen from inside the driver root. kInvalid "BadUsage" for one outside.
base::Result<std::vector<std::string>> InsideRoot(const std::vector<std::string>& folders,
                                                  std::string_view flag,
                                                  const std::string& driver_root);

// Those that look at the driver. kAuto: wsl, csv on a Tegra system, or nvml.
enum class DriverMode { kAuto, kCsv, kManagement, kNvml, kWsl };
// kInvalid "BadUsage" for a mode that there is not.
base::Result<DriverMode> ParseDriverMode(std::string_view mode);
std::string_view ToString(DriverMode mode);
// What kAuto is on this system; `gpus` are what NVML tells.
DriverMode FindMode(const std::string& driver_root, const base::Result<gpu::Inventory>& gpus);
base::Result<gpu::Inventory> ReadGpus(const std::string& driver_root);
base::Result<cdi::Spec> GenerateWithDriver(DriverMode mode, const GenerateRequest& request);

base::Result<cdi::Spec> GenerateOfClass(const cdi_generate::DeviceClass& device_class,
                                        const cdi_generate::Options& options);
base::Result<cdi::Spec> GenerateImex(const cdi_generate::Options& options);

}  // namespace pitcrew::node::ctk
