// The device plugin's life: load, offer, and react to what changes (device-plugin.md section 6).
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/result.h"
#include "host/mig_minors.h"
#include "io/file_watcher.h"
#include "io/stop.h"
#include "node/device_plugin/health_file.h"
#include "node/device_plugin/health_monitor.h"
#include "node/device_plugin/known_gpus.h"
#include "node/device_plugin/plugin.h"
#include "node/device_plugin/reporter.h"
#include "node/device_plugin/settings.h"
#include "node/mps_folder/service_watch.h"
#include "node/validations/mig_change.h"
#include "node/validations/status_folder.h"
#include "nvml/guarded.h"
#include "nvml/nvml.h"

namespace pitcrew::node::device_plugin {

// Where the node's files are, so that a test can give another tree.
struct NodePaths {
  std::filesystem::path cdi_folder = "/var/run/cdi";
  std::filesystem::path mps_folder = "/mps";
  std::filesystem::path dev = "/dev";
  std::filesystem::path proc = "/proc";
  std::filesystem::path sys = "/sys";
  std::filesystem::path validations = validations::kFolder;
  // Device folders of sysfs, best first: the host's own where a pod mounts it.
  std::vector<std::filesystem::path> pci_devices = {"/host/sys/bus/pci/devices",
                                                    "/sys/bus/pci/devices"};
  // What is remembered of GPUs' health: of the folders of the host that the pod has, the one that
  // goes with the boot.
  std::filesystem::path health_file = "/run/nvidia/validations/device-plugin-health.json";
};

// One thread runs it; NVML's events and the kubelet's calls come from others. NVML is reached
// through a guard only, so a GPU that hangs holds nothing up.
class Daemon {
 public:
  // SIGHUP arrives through `reload`; both must outlive the daemon.
  Daemon(Options options, NodePaths paths, const io::SignalReceiver& reload, io::StopToken stop);
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  // Serves until the stop. An error is one of the start, and upstream ends with it, too: wrong
  // settings, a driver that cannot be reached (unless told to wait for it), a MIG layout that fits
  // no strategy. Later ones are told about, and what is offered stays.
  base::Status Run();

 private:
  enum class Occasion { kStart, kReload, kDevicesChanged };

  base::Status StartHealth();
  // Loads; after the start, errors are told about and what was offered stays.
  base::Status TryLoad(Occasion occasion);
  // Loads with the settings as they are written now; whether that was possible.
  bool TakeSettings();
  // Loads again after the probe period, unless something else makes it load before.
  void RetryLater();
  base::Status Load(Occasion occasion);
  base::Result<Settings> ReadSettings() const;
  base::Result<gpu::Inventory> ReadGpus(const Settings& settings, Occasion occasion);
  base::Status Offer(gpu::Inventory inventory, const Settings& settings);
  void UpdatePlugins(ResourceMap devices, const std::shared_ptr<const Snapshot>& snapshot);
  // Not what was said the last time, too.
  void LogNew(const std::vector<std::string>& warnings);
  void TellUnreadable(const ResourceMap& devices);
  // What the monitor found out: kubelet, people and the health file learn of it.
  void HandleHealthChanges();
  void PublishHealth();

  void WatchFolders(const Settings& settings);
  // Folders that do not exist are left out.
  void Watch(const std::vector<std::filesystem::path>& folders);
  // What the MIG manager announces is followed without a restart (validations/mig_change.h).
  void FollowMigChanges();
  base::Status HandleFileChanges();
  // Offers every resource that may be.
  void OfferAll();
  // Whether containers may be given the device: its GPU is fit, and where it is shared through an
  // MPS server, that runs.
  [[nodiscard]] bool IsUsable(const std::string& resource, const OfferedDevice& device) const;
  [[nodiscard]] std::filesystem::path plugin_folder() const;

  const Options options_;
  const NodePaths paths_;
  const io::SignalReceiver& reload_;
  const io::StopToken stop_;
  std::optional<io::FileWatcher> watcher_;
  std::optional<HealthFile> health_file_;
  std::unique_ptr<Reporter> reporter_;
  std::optional<Settings> settings_;  // in force
  std::optional<validations::MigFollower> mig_;
  std::shared_ptr<nvml::Library> library_;
  KnownGpus known_gpus_;
  std::unique_ptr<HealthMonitor> monitor_;
  // Set while GPUs cannot be read, or what changed could not be taken over: when to look again.
  std::optional<base::SteadyClock::time_point> retry_at_;
  bool reload_due_ = false;  // new settings were told of, and could not be taken yet
  std::unique_ptr<kubelet_plugin::PluginHost> host_;
  std::map<std::string, std::unique_ptr<ResourcePlugin>> plugins_;  // end before host_
  std::set<std::string> mps_resources_;
  std::set<std::string> waits_for_mps_;  // of these, those that were told about
  std::optional<mps_folder::ServiceWatch> mps_services_;
  std::vector<std::string> warned_;
};

}  // namespace pitcrew::node::device_plugin
