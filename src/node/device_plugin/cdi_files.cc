#include "node/device_plugin/cdi_files.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/file.h"
#include "base/log.h"
#include "base/strings.h"
#include "cdi/format.h"
#include "cdi/generate/generate.h"
#include "cdi/generate/locate.h"
#include "host/device_node.h"
#include "host/driver_root.h"
#include "node/device_plugin/allocation.h"

namespace pitcrew::node::device_plugin {
namespace {

using base::Result;
using base::Status;

std::string ImexPath(std::int64_t channel) {
  return fmt::format("/dev/nvidia-caps-imex-channels/channel{}", channel);
}

Status WriteFile(const std::filesystem::path& folder, cdi::Spec spec) {
  spec.version = cdi::MinimumVersion(spec);
  const auto path = folder / (cdi::SpecFileStem(spec.kind) + ".json");
  // The container runtime reads a folder again when a file in it changes: spare it the work.
  if (const auto present = base::ReadFile(path); present && *present == cdi::ToJsonText(spec)) {
    return {};
  }
  TRY(cdi::WriteSpecFile(path, spec));
  base::LogInfo("wrote a CDI specification",
                {{"file", path.string()}, {"devices", spec.devices.size()}});
  return {};
}

// In `mig_strategy` none a GPU is offered whole even when it is divided, so it needs a device.
gpu::Inventory AsOffered(gpu::Inventory inventory, gpu::MigStrategy strategy) {
  if (strategy != gpu::MigStrategy::kNone) return inventory;
  for (auto& device : inventory.devices) {
    device.mig_mode = base::Observed<gpu::MigMode>::Missing();
    device.mig_devices.clear();
  }
  return inventory;
}

Status WriteGpus(const std::filesystem::path& folder, const gpu::Inventory& inventory,
                 const DriverRoots& roots, const Options& options, const Settings& settings) {
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

// Device nodes below `dev` whose name begins with `prefix`, as edits for host paths.
Result<std::vector<cdi::DeviceNode>> NodesWith(const DriverRoots& roots, const Settings& settings,
                                               std::string_view folder, std::string_view prefix) {
  std::vector<cdi::DeviceNode> nodes;
  const auto names = host::ListFolder(roots.dev.At(folder));
  if (!names && names.error().code == base::Code::kNotFound) return nodes;
  if (!names) return base::Fail(names.error());
  for (const auto& name : *names) {
    const auto inside = fmt::format("{}/{}", folder, name);
    if (!name.starts_with(prefix)) continue;
    if (!host::ReadCharacterDevice(roots.dev.At(inside)).is_present()) continue;
    cdi::DeviceNode node;
    node.path = inside;
    const auto on_host = host::Root(settings.dev_root).At(inside).string();
    if (on_host != inside) node.host_path = on_host;
    nodes.push_back(std::move(node));
  }
  return nodes;
}

Result<cdi::ContainerEdits> EditsOfMode(std::string_view mode, const DriverRoots& roots,
                                        const Settings& settings) {
  cdi::ContainerEdits edits;
  const auto add = [&](std::string_view folder, std::string_view prefix) -> Status {
    TRY_ASSIGN(auto nodes, NodesWith(roots, settings, folder, prefix));
    edits.device_nodes.insert(edits.device_nodes.end(), nodes.begin(), nodes.end());
    return {};
  };
  if (mode == "gdrcopy") TRY(add("/dev", "gdrdrv"));
  if (mode == "gds") {
    TRY(add("/dev", "nvidia-fs"));
    if (edits.device_nodes.empty()) return edits;
    for (const auto* path : {"/run/udev", "/etc/cufile.json"}) {
      const auto there = host::Exists(roots.driver.At(path));
      if (!there.value_or(false)) continue;
      edits.mounts.push_back({.host_path = host::Root(settings.driver_root).At(path).string(),
                              .container_path = path,
                              .options = {"ro", "nosuid", "nodev", "rbind", "rprivate"},
                              .type = ""});
    }
  }
  if (mode == "mofed") {
    TRY(add("/dev/infiniband", "uverbs"));
    TRY(add("/dev/infiniband", "rdma_cm"));
  }
  return edits;
}

cdi::Spec SpecOf(std::string_view device_class) {
  cdi::Spec spec;
  spec.kind = fmt::format("{}/{}", kCdiVendor, device_class);
  return spec;
}

}  // namespace

DriverRoots FindRoots(const std::filesystem::path& driver_root_in_here) {
  const host::Root driver(driver_root_in_here);
  const bool has_dev = host::HasDevFolder(driver).value_or(false);
  return {.driver = driver, .dev = has_dev ? driver : host::Root("/")};
}

Result<std::vector<std::string>> WriteCdiFiles(const std::filesystem::path& folder,
                                               const gpu::Inventory& inventory,
                                               const DriverRoots& roots, const Options& options,
                                               const Settings& settings,
                                               const std::vector<std::int64_t>& imex_channels) {
  TRY(WriteGpus(folder, inventory, roots, options, settings));
  std::vector<std::string> modes;
  const std::pair<const char*, bool> wanted[] = {
      {"gdrcopy", settings.gdrcopy}, {"gds", settings.gds}, {"mofed", settings.mofed}};
  for (const auto& [mode, enabled] : wanted) {
    if (!enabled) continue;
    TRY_ASSIGN(auto edits, EditsOfMode(mode, roots, settings));
    if (edits.device_nodes.empty()) {
      base::LogWarning("no device of this kind on the node: containers do without",
                       {{"feature", mode}});
      continue;
    }
    auto spec = SpecOf(mode);
    spec.devices = {{.name = "all", .annotations = {}, .edits = std::move(edits)}};
    TRY(WriteFile(folder, std::move(spec)));
    modes.emplace_back(mode);
  }
  if (imex_channels.empty()) return modes;
  auto spec = SpecOf("imex-channel");
  for (const auto channel : imex_channels) {
    cdi::DeviceNode node;
    node.path = ImexPath(channel);
    const auto on_host = host::Root(settings.dev_root).At(node.path).string();
    if (on_host != node.path) node.host_path = on_host;
    cdi::ContainerEdits edits;
    edits.device_nodes.push_back(std::move(node));
    spec.devices.push_back(
        {.name = std::to_string(channel), .annotations = {}, .edits = std::move(edits)});
  }
  TRY(WriteFile(folder, std::move(spec)));
  return modes;
}

Result<std::vector<std::int64_t>> FindImexChannels(const DriverRoots& roots,
                                                   const Settings& settings) {
  std::vector<std::int64_t> found;
  for (const auto channel : settings.imex_channels) {
    const auto path = ImexPath(channel);
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
