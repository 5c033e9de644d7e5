#include "node/driver_container/kernel_side.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <set>

#include "base/file.h"
#include "base/log.h"
#include "base/strings.h"
#include "host/kernel.h"
#include "host/pci.h"

namespace pitcrew::node::driver_container {
namespace {

// Each before those that it depends on. Those of the containers beside this one come as late as
// they can: what has gone of them cannot be loaded again from this image.
constexpr kernel_modules::Member kDriverModules[] = {{"nvidia_drm"},
                                                     {"nvidia_modeset"},
                                                     {"nvidia_uvm"},
                                                     {"nvidia_peermem"},
                                                     {.name = "nvidia_fs", .looks_up = "nvidia"},
                                                     {"gdrdrv"},
                                                     {"nvidia"}};
// The driver's modules expect them, without saying so in their dependencies.
constexpr std::array kKernelModules = {"i2c_core", "ipmi_msghandler", "ipmi_devintf", "video"};
constexpr std::array kLoadOrder = {"nvidia", "nvidia-uvm", "nvidia-modeset"};
constexpr const char* kPeermem = "nvidia-peermem";

void UndoLoad(const LoadedModules& before, const std::filesystem::path& sys) {
  for (const auto& module : kDriverModules) {
    if (before.contains(module.name)) continue;
    if (const auto unloaded = kernel_modules::Unload(std::string(module.name), sys); !unloaded) {
      base::LogWarning("A kernel module stays", unloaded.error());
    }
  }
}

base::Status LoadAll(const kernel_modules::Modules& modules, bool with_peermem) {
  for (const char* module : kKernelModules) {
    // A kernel may have them built in, or have no use for them.
    if (const auto loaded = modules.Load(module);
        !loaded && loaded.error().code != base::Code::kNotFound) {
      base::LogWarning("A module of the kernel's own could not be loaded", loaded.error());
    }
  }
  for (const char* module : kLoadOrder) TRY(modules.Load(module));
  return with_peermem ? modules.Load(kPeermem) : base::Status();
}

}  // namespace

kernel_modules::Members DriverModules() { return kDriverModules; }

base::Result<kernel_modules::Modules> OpenModules(const Options& options) {
  TRY_ASSIGN(const auto release, host::ReadKernelRelease(options.places.proc));
  return kernel_modules::Modules::Open(host::Root(options.places.root), release);
}

base::Result<LoadedModules> ReadDriverModules(const std::filesystem::path& sys) {
  return kernel_modules::ReadLoaded(kDriverModules, sys);
}

bool IsWhole(const LoadedModules& modules) {
  return std::ranges::all_of(kLoadOrder, [&](const std::string& name) {
    return modules.contains(base::ReplaceAll(name, "-", "_"));
  });
}

base::Status RefuseUsedModules(const LoadedModules& modules) {
  const auto uses = kernel_modules::UsesFromOutside(kDriverModules, modules);
  if (uses.empty()) return {};
  return base::Fail(base::Unavailable(
      "DriverInUse",
      fmt::format("the loaded driver is in use: {}; end the programs that use GPUs of this node",
                  base::Join(uses, ", "))));
}

base::Status RefuseForeignUses(LoadedModules modules) {
  // How often the daemons have these open is not known; who holds them is.
  for (const char* name : {"nvidia", "nvidia_uvm", "nvidia_modeset"}) {
    if (const auto module = modules.find(name); module != modules.end()) {
      module->second.references = 0;
    }
  }
  return RefuseUsedModules(modules);
}

base::Status LoadDriverModules(const Options& options, const ModuleParameters& parameters,
                               bool with_peermem) {
  TRY(WriteModuleParameters(parameters, options.places.root));
  TRY_ASSIGN(const auto before, ReadDriverModules(options.places.sys));
  TRY_ASSIGN(const auto modules, OpenModules(options));
  const base::Status loaded = LoadAll(modules, with_peermem);
  if (!loaded) UndoLoad(before, options.places.sys);
  return loaded;
}

base::Status UnloadDriverModules(const Options& options) {
  TRY_ASSIGN(const auto loaded, ReadDriverModules(options.places.sys));
  TRY(RefuseUsedModules(loaded));
  return kernel_modules::TakeOut(kDriverModules, loaded,
                                 {.unload =
                                      [&](const std::string& module) {
                                        return kernel_modules::Unload(module, options.places.sys);
                                      },
                                  .load = [&](const std::string& module) -> base::Status {
                                    TRY_ASSIGN(const auto modules, OpenModules(options));
                                    return modules.Load(module);
                                  }});
}

base::Status SetFirmwareFolder(const Options& options) {
  const auto file = options.places.sys / "module/firmware_class/parameters/path";
  const auto before = base::ReadFile(file);
  if (!before) {
    base::LogWarning("Where the kernel looks for firmware cannot be read", before.error());
    return {};
  }
  if (!base::Trim(*before).empty()) return {};
  // Without a newline: the kernel would take it for a part of the folder's name.
  std::ofstream stream(file);
  stream << (options.places.run / "driver/lib/firmware").string() << std::flush;
  if (!stream) {
    base::LogWarning("The kernel does not take the folder of the GPUs' firmware",
                     {{"file", file.string()}});
  }
  return {};
}

base::Result<bool> HasDirectRdma(const Options& options) {
  if (!options.gpu_direct_rdma) return false;
  TRY_ASSIGN(const auto scan, host::ReadPciDevices(options.places.sys / "bus/pci/devices"));
  return std::ranges::any_of(
      scan.devices, [](const auto& device) { return device.vendor == host::kVendorMellanox; });
}

}  // namespace pitcrew::node::driver_container
