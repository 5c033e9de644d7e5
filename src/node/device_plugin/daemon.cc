#include "node/device_plugin/daemon.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "api/plugin_config.h"
#include "base/log.h"
#include "host/device_node.h"
#include "host/driver_root.h"
#include "host/root.h"
#include "node/device_plugin/cdi_files.h"
#include "node/device_plugin/mps.h"
#include "node/device_plugin/node_facts.h"
#include "node/validations/status_folder.h"
#include "rpc/device_plugin.h"

namespace pitcrew::node::device_plugin {
namespace {

constexpr std::string_view kControlNodes[] = {"/dev/nvidiactl", "/dev/nvidia-uvm",
                                              "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset"};

// What appears in a device folder when a GPU or a MIG instance does: nvidia<N>, nvidia-caps,
// nvidia-cap<N>; and in the folder of validations when the driver is there.
bool TellsOfGpus(std::string_view name) {
  if (name == validations::kDriverReady || name == "nvidia-caps" || name == host::kNvmlLibrary)
    return true;
  const std::string_view rest = name.starts_with("nvidia-cap") ? name.substr(10)
                                : name.starts_with("nvidia")   ? name.substr(6)
                                                               : "";
  return !rest.empty() &&
         std::ranges::all_of(rest, [](unsigned char c) { return std::isdigit(c); });
}

std::vector<std::string> FindControlNodes() {
  std::vector<std::string> nodes;
  for (const auto path : kControlNodes) {
    if (host::Exists(path).value_or(false)) nodes.emplace_back(path);
  }
  return nodes;
}

LinkScores ReadLinkScores(nvml::Library& library, const gpu::Inventory& inventory) {
  const auto topology = library.ReadTopology(inventory);
  if (topology) return LinkScores(*topology);
  base::LogWarning("how GPUs are connected is unknown: any of them are preferred alike",
                   topology.error());
  return {};
}

void LogSettings(const Settings& settings, const Options& options) {
  base::LogInfo("settings", {{"mig_strategy", gpu::ToString(settings.mig_strategy)},
                             {"sharing", api::ToString(settings.sharing.strategy())},
                             {"driver_root", settings.driver_root},
                             {"driver_root_in_here", settings.driver_root_in_here.string()},
                             {"dev_root", settings.dev_root},
                             {"cdi", settings.list_strategies.UsesCdi()},
                             {"kubelet_socket", options.kubelet_socket.string()},
                             {"config_file", options.config_file.string()}});
  for (const auto& warning : settings.warnings) base::LogWarning(warning);
}

}  // namespace

Daemon::Daemon(Options options, NodePaths paths, const io::SignalReceiver& reload,
               io::StopToken stop)
    : options_(std::move(options)),
      paths_(std::move(paths)),
      reload_(reload),
      stop_(std::move(stop)) {}

// The plugins go before what they use.
Daemon::~Daemon() { plugins_.clear(); }

std::filesystem::path Daemon::plugin_folder() const {
  return options_.kubelet_socket.empty() ? std::filesystem::path(rpc::kDevicePluginDirectory)
                                         : options_.kubelet_socket.parent_path();
}

base::Status Daemon::Run() {
  TRY_ASSIGN(watcher_, io::FileWatcher::Create());
  TRY_ASSIGN(mps_services_,
             mps_folder::ServiceWatch::Create(mps_folder::MpsFolder(paths_.mps_folder)));
  kubelet_plugin::HostOptions host;
  host.folder = plugin_folder();
  host.kubelet_socket = options_.kubelet_socket;
  TRY_ASSIGN(host_, kubelet_plugin::PluginHost::Start(std::move(host)));
  TRY(Load(Occasion::kStart));
  OfferAll();
  while (true) {
    const int health = monitor_ ? monitor_->fd() : -1;
    const auto ready =
        io::WaitReadable({reload_.fd(), watcher_->fd(), health, mps_services_->fd()}, stop_);
    if (!ready && ready.error().code == base::Code::kCancelled) return {};
    if (ready && *ready == 0 && reload_.Take()) {
      base::LogInfo("reloading on SIGHUP");
      TRY(Load(Occasion::kReload));
    } else if (ready && *ready == 1) {
      TRY(HandleFileChanges());
    } else if (ready && *ready == 2) {
      monitor_->Clear();
      PublishHealth();
      continue;
    } else if (ready && *ready == 3) {
      if (mps_services_->Take()) PublishHealth();
    } else if (!ready) {
      return base::Fail(ready.error());
    }
    OfferAll();
  }
}

base::Status Daemon::Load(Occasion occasion) {
  TRY_ASSIGN(const auto config, api::ReadPluginConfig(options_.config_file));
  TRY_ASSIGN(auto settings, Merge(options_.flags, config));
  if (occasion != Occasion::kDevicesChanged) LogSettings(settings, options_);
  WatchFolders(settings);
  const auto inventory = ReadGpus(settings, occasion);
  if (inventory) return Offer(*inventory, std::move(settings), occasion);
  if (settings.fail_on_init_error || occasion == Occasion::kDevicesChanged) {
    return base::Fail(inventory.error());
  }
  base::LogWarning("waiting for the driver", inventory.error());
  plugins_.clear();
  return {};
}

base::Result<gpu::Inventory> Daemon::ReadGpus(const Settings& settings, Occasion occasion) {
  // The driver's files may be others now: nothing of the old library may stay in use.
  if (occasion == Occasion::kReload) CloseLibrary();
  if (library_) {
    auto inventory = library_->ReadInventory();
    if (inventory) return inventory;
    // A driver that went away and came back needs a library that is opened anew.
    base::LogWarning("the driver does not answer", inventory.error());
    CloseLibrary();
  }
  TRY_ASSIGN(library_, nvml::Library::Open({settings.driver_root_in_here}));
  base::LogInfo("opened NVML", {{"library", library_->path().string()}});
  auto inventory = library_->ReadInventory();
  if (!inventory) CloseLibrary();
  return inventory;
}

void Daemon::CloseLibrary() {
  monitor_.reset();
  library_.reset();
}

base::Status Daemon::Offer(const gpu::Inventory& inventory, Settings settings, Occasion occasion) {
  TRY_ASSIGN(const auto facts, ReadNodeFacts(paths_.pci_devices, paths_.proc));
  TRY_ASSIGN(auto resources,
             ListResources(inventory, settings.mig_strategy, settings.sharing, facts));
  for (const auto& warning : resources.warnings) base::LogWarning(warning);

  auto snapshot = std::make_shared<Snapshot>();
  const auto roots = FindRoots(settings.driver_root_in_here);
  TRY_ASSIGN(snapshot->facts.imex_channels, FindImexChannels(roots, settings));
  if (settings.list_strategies.UsesCdi() && !resources.devices.empty()) {
    TRY_ASSIGN(snapshot->facts.cdi_modes,
               WriteCdiFiles(paths_.cdi_folder, inventory, roots, options_, settings,
                             snapshot->facts.imex_channels));
  }
  snapshot->facts.control_nodes = FindControlNodes();
  snapshot->scores = ReadLinkScores(*library_, inventory);
  TRY_ASSIGN(mps_resources_, MpsResources(resources.devices, settings.sharing));
  mps_services_->Follow(mps_resources_);
  snapshot->settings = std::move(settings);
  TRY(WatchHealth(inventory, occasion));
  UpdatePlugins(std::move(resources.devices), snapshot);
  return {};
}

base::Status Daemon::WatchHealth(const gpu::Inventory& inventory, Occasion occasion) {
  std::vector<std::string> uuids;
  for (const auto& device : inventory.devices) uuids.push_back(device.uuid);
  // What is known about the health of the same GPUs stays known.
  if (monitor_ && occasion == Occasion::kDevicesChanged && uuids == gpu_uuids_) return {};
  monitor_.reset();
  TRY_ASSIGN(monitor_,
             HealthMonitor::Start(library_, inventory, options_.xid_policy, options_.probe_period));
  gpu_uuids_ = std::move(uuids);
  return {};
}

void Daemon::UpdatePlugins(ResourceMap devices, const std::shared_ptr<const Snapshot>& snapshot) {
  std::erase_if(plugins_, [&](const auto& entry) { return !devices.contains(entry.first); });
  for (auto& [resource, offered] : devices) {
    auto& plugin = plugins_[resource];
    if (!plugin) plugin = std::make_unique<ResourcePlugin>(resource, *host_);
    plugin->Update(std::move(offered), snapshot,
                   [this, &name = resource](const auto& device) { return IsUsable(name, device); });
  }
  if (plugins_.empty()) base::LogWarning("there is no device to offer");
}

void Daemon::WatchFolders(const Settings& settings) {
  const host::Root driver(settings.driver_root_in_here);
  std::vector<std::filesystem::path> folders = {
      "/dev",         "/dev/nvidia-caps", validations::kFolder,
      driver.At("/"), driver.At("/dev"),  driver.At("/dev/nvidia-caps")};
  for (const auto folder : host::LibraryFolders()) folders.push_back(driver.At(folder));
  Watch(folders);
}

void Daemon::Watch(const std::vector<std::filesystem::path>& folders) {
  for (const auto& folder : folders) {
    const auto watched = watcher_->Watch(folder);
    if (!watched && watched.error().code != base::Code::kNotFound) {
      base::LogWarning("a folder cannot be watched", watched.error());
    }
  }
}

base::Status Daemon::HandleFileChanges() {
  TRY_ASSIGN(const auto changes, watcher_->Take());
  bool devices_changed = false;
  for (const auto& change : changes) {
    // Without a driver every change may be its arrival.
    devices_changed =
        devices_changed || !library_ || change.name.empty() || TellsOfGpus(change.name);
  }
  if (!devices_changed) return {};
  // What is offered stays offered while a change cannot be understood.
  if (const auto loaded = Load(Occasion::kDevicesChanged); !loaded) {
    base::LogWarning("devices changed, and cannot be read now", loaded.error());
  }
  return {};
}

bool Daemon::IsUsable(const std::string& resource, const OfferedDevice& device) const {
  return monitor_->IsHealthy(device) &&
         (!mps_resources_.contains(resource) || mps_services_->Serves(resource));
}

void Daemon::PublishHealth() {
  for (const auto& [resource, plugin] : plugins_) {
    plugin->PublishHealth(
        [this, &name = resource](const auto& device) { return IsUsable(name, device); });
  }
}

void Daemon::OfferAll() {
  for (const auto& [resource, plugin] : plugins_) {
    // Not before its server has its limits: the first containers would run without any.
    if (mps_resources_.contains(resource) && !mps_services_->Serves(resource)) {
      base::LogInfo("waiting for the MPS control daemon", {{"resource", resource}});
      continue;
    }
    plugin->Offer();
  }
}

}  // namespace pitcrew::node::device_plugin
