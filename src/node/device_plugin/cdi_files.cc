#include "node/device_plugin/cdi_files.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "base/strings.h"
#include "cdi/format.h"
#include "cdi/generate/classes.h"
#include "cdi/generate/generate.h"
#include "cdi/generate/locate.h"
#include "host/device_node.h"
#include "host/driver_root.h"
#include "node/device_plugin/allocation.h"

namespace pitcrew::node::device_plugin {
namespace {

using base::Result;
using base::Status;

Status WriteFile(const std::filesystem::path& folder, cdi::Spec spec) {
  const auto path = folder / (cdi::SpecFileStem(spec.kind) + ".json");
  const auto devices = spec.devices.size();
  TRY_ASSIGN(const bool written, cdi::UpdateSpecFile(path, std::move(spec)));
  if (written) {
    base::LogInfo("wrote a CDI specification", {{"file", path.string()}, {"devices", devices}});
  }
  return {};
}

// In `mig_strategy` none a GPU is offered whole even when it is divided, so it needs a device. What
// cannot be read is offered to nobody.
gpu::Inventory AsOffered(gpu::Inventory inventory, gpu::MigStrategy strategy) {
  std::erase_if(inventory.devices, [](const auto& device) { return device.fault.has_value(); });
  if (strategy != gpu::MigStrategy::kNone) return inventory;
  for (auto& device : inventory.devices) {
    device.mig_mode = base::Observed<gpu::MigMode>::Missing();
    device.mig_devices.clear();
  }
  return inventory;
}

Status WriteGpus(const std::filesystem::path& folder, const gpu::Inventory& inventory,
                 const DriverRoots& roots, const Options& options, const Settings& settings) {
  if (std::ranges::all_of(inventory.devices,
                          [](const auto& device) { return device.fault.has_value(); })) {
    base::LogWarning("no GPU can be read: their CDI specification is not written");
    return {};
  }
  TRY_ASSIGN(const auto files, cdi_generate::Locate({.driver_root = roots.driver,
                                                     .dev_root = roots.dev,
                                                     .version = inventory.driver_version}));
  cdi_generate::Options generation;
  generation.kind = fmt::format("{}/gpu", kCdiVendor);
  generation.driver_root = settings.driver_root;
  generation.dev_root = settings.dev_root;
  generation.hook_path = settings.cdi_hook_path;
  generation.naming = {settings.device_id_strategy == DeviceIdStrategy::kUuid
                           ? cdi_generate::Naming::kUuid
                           : cdi_generate::Naming::kIndex};
  generation.merged_device = false;
  generation.disabled_hooks = options.cdi_disabled_hooks;
  generation.additional_gids =
      std::ranges::find(options.cdi_feature_flags, "no-additional-gids-for-device-nodes") ==
      options.cdi_feature_flags.end();
  TRY_ASSIGN(auto generated, cdi_generate::GenerateGpus(AsOffered(inventory, settings.mig_strategy),
                                                        files, generation));
  for (const auto& error : generated.omitted) {
    base::LogWarning("a device has no CDI device", error);
  }
  return WriteFile(folder, std::move(generated.spec));
}

cdi_generate::ClassRoots ClassRootsOf(const DriverRoots& roots, const Settings& settings) {
  return {.driver = roots.driver,
          .dev = roots.dev,
          .driver_on_host = settings.driver_root,
          .dev_on_host = settings.dev_root};
}

}  // namespace

Result<DriverRoots> FindRoots(const std::filesystem::path& driver_root_in_here) {
  const host::Root driver(driver_root_in_here);
  TRY_ASSIGN(const bool has_dev, host::HasDevFolder(driver));
  return DriverRoots{.driver = driver, .dev = has_dev ? driver : host::Root("/")};
}

Result<std::vector<std::string>> WriteCdiFiles(const std::filesystem::path& folder,
                                               const gpu::Inventory& inventory,
                                               const DriverRoots& roots, const Options& options,
                                               const Settings& settings,
                                               const std::vector<std::int64_t>& imex_channels) {
  TRY(WriteGpus(folder, inventory, roots, options, settings));
  const auto class_roots = ClassRootsOf(roots, settings);
  std::vector<std::string> modes;
  const std::pair<const char*, bool> wanted[] = {
      {"gdrcopy", settings.gdrcopy}, {"gds", settings.gds}, {"mofed", settings.mofed}};
  for (const auto& [mode, enabled] : wanted) {
    if (!enabled) continue;
    TRY_ASSIGN(auto spec, cdi_generate::GenerateClass(*cdi_generate::FindDeviceClass(mode),
                                                      kCdiVendor, class_roots));
    if (!spec) {
      base::LogWarning("no device of this kind on the node: containers do without",
                       {{"feature", mode}});
      continue;
    }
    TRY(WriteFile(folder, *std::move(spec)));
    modes.emplace_back(mode);
  }
  if (imex_channels.empty()) return modes;
  TRY(WriteFile(folder,
                cdi_generate::GenerateImexChannels(imex_channels, kCdiVendor, class_roots)));
  return modes;
}

Result<std::vector<std::int64_t>> FindImexChannels(const DriverRoots& roots,
                                                   const Settings& settings) {
  std::vector<std::int64_t> found;
  for (const auto channel : settings.imex_channels) {
    const auto path = cdi_generate::ImexChannelPath(channel);
    if (host::ReadCharacterDevice(path).is_present() ||
        host::ReadCharacterDevice(roots.dev.At(path)).is_present()) {
      found.push_back(channel);
    } else if (settings.imex_required) {
      return base::Fail(base::NotFound(
          "ImexChannelMissing",
          fmt::format("IMEX channel {} is required and {} does not exist", channel, path)));
    } else {
      base::LogWarning("IMEX channel is missing and left out", {{"channel", channel}});
    }
  }
  return found;
}

}  // namespace pitcrew::node::device_plugin
