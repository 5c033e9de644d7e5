#include "node/driver_manager/loaded_driver.h"

#include <fmt/format.h>
#include <sys/sysmacros.h>

#include <array>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/log.h"
#include "base/strings.h"
#include "host/device_users.h"
#include "host/kernel.h"
#include "host/pci.h"
#include "host/root.h"
#include "kernel_modules/kernel_modules.h"
#include "kernel_modules/module_set.h"

namespace pitcrew::node::driver_manager {
namespace {

using kernel_modules::Member;

// With nvidia_drm, which upstream forgets. Those of other containers (GPUDirect Storage, GDRCopy)
// come late: they cannot be loaded again from the driver's files.
constexpr std::array kModules = {
    Member{"nvidia_drm"},       Member{"nvidia_modeset"},
    Member{"nvidia_uvm"},       Member{"nvidia_peermem"},
    Member{"nvidia_vgpu_vfio"}, Member{.name = "nvidia_fs", .looks_up = "nvidia"},
    Member{"gdrdrv"},           Member{"nvidia"}};

bool IsDriversMajor(std::string_view name) {
  return name.starts_with("nvidia") || name == "gdrdrv";
}

// The nodes below /dev/dri of NVIDIA's GPUs.
base::Status AddDrmDevices(const Options& options, host::DeviceNumbers& numbers) {
  const auto scan = host::ReadPciDevices(options.sys / "bus/pci/devices");
  if (!scan) {
    return scan.error().code == base::Code::kNotFound ? base::Status() : base::Fail(scan.error());
  }
  for (const auto& device : scan->devices) {
    if (device.vendor != host::kVendorNvidia) continue;
    const auto nodes = host::ListFolder(device.folder / "drm");
    if (!nodes) continue;  // most have none
    for (const auto& node : *nodes) {
      if (const auto number = host::ReadDeviceNumber(device.folder / "drm" / node / "dev")) {
        numbers.insert(*number);
      }
    }
  }
  return {};
}

// All that the driver's modules may have made: which of its nodes there are is not asked.
base::Result<host::DeviceNumbers> DriverDevices(const Options& options) {
  constexpr unsigned kMinors = 256;
  TRY_ASSIGN(const auto majors, host::ReadCharacterMajors(options.host_root / "proc"));
  host::DeviceNumbers numbers;
  for (const auto& [name, major_number] : majors) {
    if (!IsDriversMajor(name)) continue;
    for (unsigned minor_number = 0; minor_number < kMinors; ++minor_number) {
      numbers.insert(makedev(major_number, minor_number));
    }
  }
  TRY(AddDrmDevices(options, numbers));
  return numbers;
}

// "python3 (process 12) has /dev/nvidia0 open".
base::Result<std::vector<std::string>> WhoHasDevicesOpen(const Options& options) {
  TRY_ASSIGN(const auto devices, DriverDevices(options));
  TRY_ASSIGN(const auto users, host::FindDeviceUsers(devices, options.host_root / "proc"));
  std::vector<std::string> open;
  for (const auto& user : users) {
    open.push_back(fmt::format("{} has {} open", user.ToString(), base::Join(user.files, ", ")));
  }
  return open;
}

base::Error StillInUse(const std::string& why) {
  return base::Unavailable("DriverStillInUse",
                           fmt::format("the driver cannot be unloaded: {}; end the programs that "
                                       "use the GPUs of this node",
                                       why));
}

// Where the files of the driver that is loaded may still be: its container's root, as long as its
// files are there, and the host.
base::Status LoadFrom(const std::filesystem::path& root, const std::string& release,
                      const std::string& version, const std::string& module) {
  TRY_ASSIGN(const auto modules, kernel_modules::Modules::Open(host::Root(root), release));
  const auto there = modules.ReadFileVersion("nvidia");
  if (there.is_unknown()) return base::Fail(*there.error());
  if (there.is_absent() || *there.value() != version) {
    return base::Fail(
        base::NotFound("NoSuchModule", fmt::format("{} has no driver {}", root.string(), version)));
  }
  return modules.Load(module);
}

base::Status LoadAgain(const Options& options, const std::string& version,
                       const std::string& module) {
  TRY_ASSIGN(const auto release, host::ReadKernelRelease(options.proc));
  std::vector<std::string> failures;
  for (const auto& root : {options.run_folder / "driver", options.host_root}) {
    const auto loaded = LoadFrom(root, release, version, module);
    if (loaded) return {};
    failures.push_back(loaded.error().message);
  }
  return base::Fail(base::NotFound("NoSuchModule", base::Join(failures, "; ")));
}

}  // namespace

base::Status UnloadDriver(const Options& options) {
  TRY_ASSIGN(const auto loaded, kernel_modules::ReadLoaded(kModules, options.sys));
  if (loaded.empty()) return {};
  auto uses = kernel_modules::UsesFromOutside(kModules, loaded);
  if (auto open = WhoHasDevicesOpen(options)) {
    uses.insert(uses.end(), open->begin(), open->end());
  } else {
    // The kernel's counts tell that there is somebody, too.
    base::LogWarning("Which programs have the driver's devices open cannot be seen", open.error());
  }
  if (!uses.empty()) return base::Fail(StillInUse(base::Join(uses, "; ")));
  const auto version = base::ReadFile(options.sys / "module/nvidia/version").value_or("");
  const auto load = [&](const std::string& module) {
    return LoadAgain(options, std::string(base::Trim(version)), module);
  };
  const auto gone = kernel_modules::TakeOut(
      kModules, loaded,
      {.unload = options.unload_module,
       .load = options.load_module == nullptr ? load : options.load_module});
  return gone ? base::Status() : base::Fail(StillInUse(gone.error().message));
}

base::Status UnloadNouveau(const Options& options) {
  const auto references = host::ReadModuleReferences("nouveau", options.sys);
  if (references.is_unknown()) return base::Fail(*references.error());
  return references.is_absent() ? base::Status() : options.unload_module("nouveau");
}

}  // namespace pitcrew::node::driver_manager
