#include "node/vfio/variants.h"

#include <fmt/format.h>

#include "base/file.h"
#include "base/strings.h"
#include "host/kernel.h"
#include "kernel_modules/kernel_modules.h"
#include "node/vfio/preflight.h"

namespace pitcrew::node::vfio {
namespace {

base::Status Load(const Settings& settings, const std::string& release, const std::string& module) {
  if (settings.load_module) return settings.load_module(module);
  TRY_ASSIGN(const auto modules, kernel_modules::Modules::Open(settings.host_root, release));
  return modules.Load(module);
}

}  // namespace

base::Result<Variants> Variants::Read(const Settings& settings) {
  TRY_ASSIGN(auto release, host::ReadKernelRelease(settings.root.At("/proc")));
  auto text =
      base::ReadFile(settings.host_root.At(fmt::format("/lib/modules/{}/modules.alias", release)));
  if (!text && text.error().code != base::Code::kNotFound) return base::Fail(text.error());
  return Variants(settings, std::move(release), host::ParseVfioAliases(text.value_or("")));
}

base::Result<std::string> Variants::ModuleFor(const host::PciDevice& function) const {
  TRY_ASSIGN(const auto modalias, host::ReadModalias(function));
  return host::BestVfioModule(aliases_, modalias);
}

base::Result<std::string> Variants::FindDriver(const std::string& module) const {
  const auto drivers = settings_.root.At("/sys/bus/pci/drivers");
  for (const auto& name : {module, base::ReplaceAll(module, "_", "-")}) {
    TRY_ASSIGN(const bool there, host::IsDirectory(drivers / name));
    if (there) return name;
  }
  return base::Fail(
      base::NotFound("DriverNotLoaded", fmt::format("the kernel has no PCI driver {}", module)));
}

base::Result<std::string> Variants::LoadDriver(const std::string& module) const {
  auto driver = FindDriver(module);
  if (driver || driver.error().code != base::Code::kNotFound) return driver;
  const auto loaded = Load(settings_, release_, module);
  if (!loaded) {
    return base::Fail(base::Unavailable(
        std::string(kVfioDriverMissing),
        fmt::format("the kernel has no VFIO driver {}: {}", module, loaded.error().message)));
  }
  driver = FindDriver(module);
  if (driver || driver.error().code != base::Code::kNotFound) return driver;
  return base::Fail(base::Unavailable(
      std::string(kVfioDriverMissing),
      fmt::format("kernel module {} is loaded, and there is no PCI driver of its name in {}",
                  module, settings_.root.At("/sys/bus/pci/drivers").string())));
}

}  // namespace pitcrew::node::vfio
