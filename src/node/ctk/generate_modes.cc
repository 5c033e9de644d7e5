#include "node/ctk/generate_modes.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "cdi/generate/device_ids.h"
#include "host/platform.h"
#include "node/toolkit/options.h"
#include "node/toolkit/tegra_spec.h"
#include "node/toolkit/wsl_spec.h"
#include "nvml/nvml.h"

namespace pitcrew::node::ctk {
namespace {

using GpusOrError = base::Result<gpu::Inventory>;

constexpr std::pair<DriverMode, std::string_view> kModes[] = {
    {DriverMode::kAuto, "auto"},
    {DriverMode::kCsv, "csv"},
    {DriverMode::kManagement, "management"},
    {DriverMode::kNvml, "nvml"},
    {DriverMode::kWsl, "wsl"}};

cdi_generate::LocateOptions LocateOptionsOf(const GenerateRequest& request,
                                            const GpusOrError& gpus) {
  cdi_generate::LocateOptions options;
  options.driver_root = host::Root(request.options.driver_root);
  options.dev_root = host::Root(request.options.dev_root);
  if (gpus) options.version = gpus->driver_version;
  return options;
}

// What the modes of a driver's own files have in common.
base::Result<cdi_generate::DriverFiles> LocateDriver(const GenerateRequest& request,
                                                     const GpusOrError& gpus) {
  auto options = LocateOptionsOf(request, gpus);
  TRY_ASSIGN(options.library_folders, InsideRoot(request.library_folders, "--library-search-path",
                                                 request.options.driver_root));
  options.config_folders = request.config_folders;
  options.program_folders = request.program_folders;
  options.mps_folder = cdi_generate::MpsFolder();
  options.unversioned_libraries = request.unversioned_libraries;
  TRY_ASSIGN(auto files, cdi_generate::Locate(options));
  if (!request.sockets) {
    files.sockets.clear();
    files.mps_folder.clear();
  }
  return files;
}

base::Result<cdi::Spec> GenerateNvml(const GenerateRequest& request, const GpusOrError& gpus) {
  if (!gpus) return base::Fail(gpus.error());
  TRY_ASSIGN(const auto files, LocateDriver(request, gpus));
  TRY_ASSIGN(auto generated, cdi_generate::GenerateGpus(*gpus, files, request.options));
  for (const auto& error : generated.omitted) base::LogWarning("A GPU is left out", error);
  return std::move(generated.spec);
}

base::Result<cdi::Spec> GenerateManagement(const GenerateRequest& request,
                                           const GpusOrError& gpus) {
  TRY_ASSIGN(const auto files, LocateDriver(request, gpus));
  return cdi_generate::GenerateManagement(files, request.options);
}

base::Result<cdi::Spec> GenerateCsv(const GenerateRequest& request, const GpusOrError& gpus) {
  toolkit::TegraRequest tegra{LocateOptionsOf(request, gpus),
                              {request.tegra.lists.begin(), request.tegra.lists.end()},
                              request.tegra.ignored_links,
                              {},
                              {}};
  tegra.locate.library_folders = request.library_folders;
  tegra.tegra.one_device = request.tegra.one_device;
  if (!request.tegra.compat_root.empty()) tegra.tegra.orin_compat_root = request.tegra.compat_root;
  if (!request.tegra.lists.empty()) {
    tegra.lists_folder = std::filesystem::path(request.tegra.lists.front()).parent_path().string();
  }
  return toolkit::GenerateTegraSpec(gpus ? &*gpus : nullptr, tegra, request.options);
}

base::Result<cdi::Spec> GenerateWsl(const GenerateRequest& request) {
  if (!cdi_generate::MeansAllDevices(request.options.ids)) {
    return base::Fail(toolkit::BadUsage("--device-id: mode wsl has one device, all"));
  }
  return toolkit::GenerateWslSpec(host::Root(request.options.driver_root),
                                  host::Root(request.options.dev_root), request.options);
}

}  // namespace

base::Result<DriverMode> ParseDriverMode(std::string_view mode) {
  for (const auto& [known, name] : kModes) {
    if (name == mode) return known;
  }
  return base::Fail(toolkit::BadUsage(
      fmt::format("--mode \"{}\" is none of auto, csv, gdrcopy, gds, imex, management, mofed, "
                  "nvml, nvswitch, wsl",
                  mode)));
}

std::string_view ToString(DriverMode mode) {
  return std::ranges::find(kModes, mode, &std::pair<DriverMode, std::string_view>::first)->second;
}

base::Result<gpu::Inventory> ReadGpus(const std::string& driver_root) {
  TRY_ASSIGN(const auto library, nvml::Library::Open({driver_root}));
  return library->ReadInventory();
}

DriverMode FindMode(const std::string& driver_root, const base::Result<gpu::Inventory>& gpus) {
  std::vector<std::string> names;
  if (gpus) {
    for (const auto& device : gpus->devices) names.push_back(device.name);
  }
  switch (host::FindPlatform(host::Root(driver_root), names)) {
    case host::Platform::kTegra:
      return DriverMode::kCsv;
    case host::Platform::kWsl:
      return DriverMode::kWsl;
    case host::Platform::kGpus:
      break;
  }
  return DriverMode::kNvml;
}

base::Result<cdi::Spec> GenerateWithDriver(DriverMode mode, const GenerateRequest& request) {
  if (mode == DriverMode::kWsl) return GenerateWsl(request);
  const auto gpus = ReadGpus(request.options.driver_root);
  if (mode == DriverMode::kAuto) mode = FindMode(request.options.driver_root, gpus);
  switch (mode) {
    case DriverMode::kCsv:
      return GenerateCsv(request, gpus);
    case DriverMode::kWsl:
      return GenerateWsl(request);
    case DriverMode::kManagement:
      return GenerateManagement(request, gpus);
    case DriverMode::kAuto:
    case DriverMode::kNvml:
      break;
  }
  return GenerateNvml(request, gpus);
}

}  // namespace pitcrew::node::ctk
