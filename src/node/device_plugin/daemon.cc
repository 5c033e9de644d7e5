#include "node/device_plugin/daemon.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "api/plugin_config.h"
#include "base/log.h"
#include "host/device_node.h"
#include "host/driver_root.h"
#include "host/platform.h"
#include "host/root.h"
#include "node/device_plugin/cdi_files.h"
#include "node/device_plugin/mps.h"
#include "node/device_plugin/node_facts.h"
#include "node/validations/status_folder.h"
#include "rpc/device_plugin.h"

namespace pitcrew::node::device_plugin {
namespace {

constexpr std::string_view kControlNodes[] = {"nvidiactl", "nvidia-uvm", "nvidia-uvm-tools",
                                              "nvidia-modeset"};

// Label "app" of the pods that run this program.
constexpr std::string_view kDaemonSetApp = "nvidia-device-plugin-daemonset";

// What appears in a device folder with a GPU, a MIG instance, or what containers get beside them:
// nvidia<N>, nvidia-cap<N>, nvidiactl, nvidia-uvm, nvidia-fs<N>, channel<N> of IMEX, ...; and in
// the folder of validations when the driver is there.
bool TellsOfDevices(std::string_view name) {
  constexpr std::string_view kBeginnings[] = {"nvidia", "channel", "uverbs"};
  constexpr std::string_view kNames[] = {"gdrdrv", "infiniband", "rdma_cm",
                                         validations::kDriverReady, host::kNvmlLibrary};
  return std::ranges::any_of(kBeginnings, [&](auto one) { return name.starts_with(one); }) ||
         std::ranges::find(kNames, name) != std::end(kNames);
}

std::vector<std::string> FindControlNodes(const std::filesystem::path& dev) {
  std::vector<std::string> nodes;
  for (const auto name : kControlNodes) {
    if (host::Exists(dev / name).value_or(false)) nodes.push_back(fmt::format("/dev/{}", name));
  }
  return nodes;
}

// CUDA cannot start without it, and NVML, which is all that this process needs, can.
void CheckMemoryDriver(const DriverRoots& roots, const std::filesystem::path& dev,
                       std::vector<std::string>& warnings) {
  constexpr std::string_view kNode = "nvidia-uvm";
  const bool found = host::Exists(dev / kNode).value_or(true) ||
                     host::Exists(roots.dev.At("/dev") / kNode).value_or(true);
  if (found) return;
  warnings.emplace_back(
      "there is no /dev/nvidia-uvm, without which CUDA does not start in containers: load the "
      "kernel module on the host (modprobe nvidia-uvm); the node is taken up when it appears");
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
  TRY_ASSIGN(reporter_, Reporter::Create(options_));
  TRY(StartHealth());
  kubelet_plugin::HostOptions host;
  host.folder = plugin_folder();
  host.kubelet_socket = options_.kubelet_socket;
  TRY_ASSIGN(host_, kubelet_plugin::PluginHost::Start(std::move(host)));
  FollowMigChanges();
  TRY(TryLoad(Occasion::kStart));
  while (true) {
    HandleHealthChanges();
    OfferAll();
    base::Deadline deadline;
    if (retry_at_) deadline = base::Deadline(*retry_at_);
    const auto ready = io::WaitReadable(
        {reload_.fd(), watcher_->fd(), monitor_->fd(), mps_services_->fd()}, stop_, deadline);
    if (!ready && ready.error().code == base::Code::kCancelled) return {};
    if (!ready && ready.error().code == base::Code::kTimeout) {
      TRY(TryLoad(Occasion::kDevicesChanged));
    } else if (!ready) {
      return base::Fail(ready.error());
    } else if (*ready == 0 && reload_.Take()) {
      base::LogInfo("reloading on SIGHUP");
      TRY(TryLoad(Occasion::kReload));
    } else if (*ready == 1) {
      TRY(HandleFileChanges());
    } else if (*ready == 3 && mps_services_->Take()) {
      PublishHealth();
    }
  }
}

base::Status Daemon::StartHealth() {
  std::map<std::string, GpuHealth> known;
  if (auto instance = DriverInstance::Read(paths_.proc, paths_.sys)) {
    health_file_.emplace(paths_.health_file, *std::move(instance));
    if (auto loaded = health_file_->Load()) {
      known = *std::move(loaded);
    } else {
      base::LogWarning("what was known of the GPUs' health is lost", loaded.error());
    }
  } else {
    base::LogWarning("the GPUs' health is not remembered over restarts", instance.error());
  }
  TRY_ASSIGN(monitor_,
             HealthMonitor::Create(options_.xid_policy, options_.probe_period, std::move(known)));
  return {};
}

base::Status Daemon::TryLoad(Occasion occasion) {
  retry_at_.reset();
  // In the middle of a change NVML tells no layout that anybody should be offered; its end is told.
  if (occasion == Occasion::kDevicesChanged && mig_ && !mig_->changing().empty()) return {};
  if (occasion == Occasion::kStart) return Load(occasion);
  // New settings that could not be taken are not forgotten for a device that comes meanwhile.
  if (occasion == Occasion::kReload || reload_due_) {
    reload_due_ = !TakeSettings();
    if (!reload_due_ || occasion == Occasion::kReload) return {};
  }
  if (const auto loaded = Load(Occasion::kDevicesChanged); !loaded) {
    base::LogWarning("devices changed, and cannot be read now", loaded.error());
    RetryLater();
  }
  return {};
}

bool Daemon::TakeSettings() {
  const auto loaded = Load(Occasion::kReload);
  if (loaded) {
    reporter_->SettingsTaken();
    return true;
  }
  reporter_->SettingsRefused(loaded.error());
  // Settings that are wrong, or that the GPUs do not fit, get right by another SIGHUP or another
  // change only; anything else may by itself.
  if (loaded.error().code != base::Code::kInvalid) RetryLater();
  return false;
}

void Daemon::RetryLater() { retry_at_ = base::SteadyClock::now() + options_.probe_period; }

base::Result<Settings> Daemon::ReadSettings() const {
  TRY_ASSIGN(const auto config, api::ReadPluginConfig(options_.config_file));
  TRY_ASSIGN(auto settings, Merge(options_.flags, config));
  LogSettings(settings, options_);
  return settings;
}

base::Status Daemon::Load(Occasion occasion) {
  auto settings = settings_;
  if (occasion != Occasion::kDevicesChanged || !settings) {
    TRY_ASSIGN(settings, ReadSettings());
  }
  WatchFolders(*settings);
  TRY(host::RefuseUnsupportedPlatform(host::Root(settings->driver_root_in_here)));
  auto inventory = ReadGpus(*settings, occasion);
  if (!inventory) {
    const bool waits = !settings->fail_on_init_error && plugins_.empty();
    if (!waits) {
      monitor_->Lose(inventory.error());
      return base::Fail(inventory.error());
    }
    LogNew({"waiting for the driver: " + inventory.error().ToString()});
    settings_ = std::move(settings);
    // Its files announce themselves before it answers, and then nothing more.
    RetryLater();
    return {};
  }
  TRY(Offer(*std::move(inventory), *settings));
  settings_ = std::move(settings);
  return {};
}

base::Result<gpu::Inventory> Daemon::ReadGpus(const Settings& settings, Occasion occasion) {
  // The driver's files may be others now: nothing of the old library may stay in use. One in which
  // a call hangs cannot be closed.
  if (occasion == Occasion::kReload && !nvml::HasHangingCalls()) {
    monitor_->Rest();
    library_.reset();
  }
  if (library_) {
    auto inventory = library_->ReadInventory();
    if (inventory || nvml::HasHangingCalls()) return inventory;
    // A driver that went away and came back needs a library that is opened anew.
    base::LogWarning("the driver does not answer", inventory.error());
    monitor_->Rest();
    library_.reset();
  }
  TRY_ASSIGN(library_,
             nvml::OpenGuarded({settings.driver_root_in_here}, {.limit = options_.nvml_limit}));
  base::LogInfo("opened NVML", {{"library", library_->path().string()}});
  auto inventory = library_->ReadInventory();
  if (!inventory) library_.reset();
  return inventory;
}

base::Status Daemon::Offer(gpu::Inventory inventory, const Settings& settings) {
  for (const auto& device : inventory.devices) TRY(host::RefuseIntegratedGpu(device.name));
  const host::Root driver(settings.driver_root_in_here);
  TRY_ASSIGN(const auto facts,
             ReadNodeFacts(paths_.pci_devices, {paths_.proc, driver.At("/proc")}));
  const auto gpus = known_gpus_.Update(std::move(inventory), facts.pci_devices);
  // Whatever follows: what is offered is watched, through the library that is open.
  monitor_->Follow(library_, gpus.now);
  TRY_ASSIGN(auto resources,
             ListResources(gpus.now, settings.mig_strategy, settings.sharing, facts));
  TRY_ASSIGN(auto mps_resources, MpsResources(resources.devices, settings.sharing));
  TRY_ASSIGN(const auto roots, FindRoots(settings.driver_root_in_here));
  if (!resources.devices.empty()) CheckMemoryDriver(roots, paths_.dev, resources.warnings);
  LogNew(resources.warnings);

  auto snapshot = std::make_shared<Snapshot>();
  TRY_ASSIGN(snapshot->facts.imex_channels, FindImexChannels(roots, settings));
  if (settings.list_strategies.UsesCdi() && !resources.devices.empty()) {
    TRY_ASSIGN(snapshot->facts.cdi_modes,
               WriteCdiFiles(paths_.cdi_folder, gpus.last_read, roots, options_, settings,
                             snapshot->facts.imex_channels));
  }
  snapshot->facts.control_nodes = FindControlNodes(paths_.dev);
  snapshot->scores = ReadLinkScores(*library_, gpus.now);
  snapshot->settings = settings;
  mps_resources_ = std::move(mps_resources);
  mps_services_->Follow(mps_resources_);
  TellUnreadable(resources.devices);
  UpdatePlugins(std::move(resources.devices), snapshot);
  return {};
}

void Daemon::LogNew(const std::vector<std::string>& warnings) {
  for (const auto& warning : warnings) {
    if (std::ranges::find(warned_, warning) == warned_.end()) base::LogWarning(warning);
  }
  warned_ = warnings;
}

void Daemon::TellUnreadable(const ResourceMap& resources) {
  std::map<std::string, std::string> unreadable;
  for (const auto& [resource, devices] : resources) {
    for (const auto& device : devices) {
      if (!device.unfit.empty()) unreadable[device.gpu_uuid] = device.unfit;
    }
  }
  if (!unreadable.empty()) {
    RetryLater();
  }
  // Of those that are unhealthy, too, the monitor tells.
  std::erase_if(unreadable,
                [&](const auto& gpu) { return !monitor_->ReasonOf(gpu.first).empty(); });
  reporter_->Unreadable(unreadable);
}

void Daemon::UpdatePlugins(ResourceMap devices, const std::shared_ptr<const Snapshot>& snapshot) {
  std::erase_if(plugins_, [&](const auto& entry) {
    const bool gone = !devices.contains(entry.first);
    if (gone) reporter_->Withdrawn(entry.first);
    return gone;
  });
  for (auto& [resource, offered] : devices) {
    auto& plugin = plugins_[resource];
    if (!plugin) plugin = std::make_unique<ResourcePlugin>(resource, *host_);
    plugin->Update(std::move(offered), snapshot,
                   [this, &name = resource](const auto& device) { return IsUsable(name, device); });
  }
  if (plugins_.empty()) base::LogWarning("there is no device to offer");
  PublishHealth();
}

void Daemon::PublishHealth() {
  for (const auto& [resource, plugin] : plugins_) {
    const auto count = plugin->PublishHealth(
        [this, &name = resource](const auto& device) { return IsUsable(name, device); });
    reporter_->Listed(resource, count.healthy, count.unhealthy);
  }
}

void Daemon::HandleHealthChanges() {
  const auto changes = monitor_->TakeChanges();
  if (changes.empty()) return;
  PublishHealth();
  for (const auto& change : changes) reporter_->GpuChanged(change);
  if (health_file_) {
    if (const auto saved = health_file_->Save(monitor_->known()); !saved) {
      base::LogWarning("the GPUs' health cannot be remembered", saved.error());
    }
  }
  // A GPU that is back is read before its next turn.
  const bool back =
      std::ranges::any_of(changes, [](const HealthChange& change) { return change.healthy; });
  if (back && retry_at_) retry_at_ = base::SteadyClock::now();
}

void Daemon::WatchFolders(const Settings& settings) {
  const host::Root driver(settings.driver_root_in_here);
  std::vector<std::filesystem::path> folders = {paths_.validations, driver.At("/")};
  for (const auto& dev : {paths_.dev, driver.At("/dev")}) {
    folders.push_back(dev);
    for (const auto* inner : {"nvidia-caps", "nvidia-caps-imex-channels", "infiniband"}) {
      folders.push_back(dev / inner);
    }
  }
  for (const auto& folder : host::LibraryFolders()) folders.push_back(driver.At(folder));
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

void Daemon::FollowMigChanges() {
  Watch({paths_.validations});
  auto follower = validations::MigFollower::Register(validations::StatusFolder(paths_.validations),
                                                     kDaemonSetApp);
  if (follower) {
    mig_ = *std::move(follower);
  } else {
    base::LogInfo("the MIG manager will restart this program for its changes",
                  {{"why", follower.error().ToString()}});
  }
}

base::Status Daemon::HandleFileChanges() {
  TRY_ASSIGN(const auto changes, watcher_->Take());
  bool devices_changed = false;
  for (const auto& change : changes) {
    if (mig_ && change.name == validations::kMigChange) {
      if (const auto read = mig_->Refresh(); !read) {
        base::LogWarning("what the MIG manager announces cannot be read", read.error());
      }
      PublishHealth();
      devices_changed = true;
      continue;
    }
    // Without a driver every change may be its arrival.
    devices_changed =
        devices_changed || !library_ || change.name.empty() || TellsOfDevices(change.name);
  }
  if (!devices_changed) return {};
  return TryLoad(Occasion::kDevicesChanged);
}

bool Daemon::IsUsable(const std::string& resource, const OfferedDevice& device) const {
  return monitor_->IsHealthy(device) && !(mig_ && mig_->changing().contains(device.gpu_uuid)) &&
         (!mps_resources_.contains(resource) || mps_services_->Serves(resource));
}

void Daemon::OfferAll() {
  for (const auto& [resource, plugin] : plugins_) {
    // Not before its server has its limits: the first containers would run without any.
    if (mps_resources_.contains(resource) && !mps_services_->Serves(resource)) {
      if (waits_for_mps_.insert(resource).second) {
        base::LogInfo("waiting for the MPS control daemon", {{"resource", resource}});
      }
      continue;
    }
    waits_for_mps_.erase(resource);
    plugin->Offer();
  }
}

}  // namespace pitcrew::node::device_plugin
