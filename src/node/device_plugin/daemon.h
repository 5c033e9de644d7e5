// The device plugin's life: load, offer, and react to what changes (device-plugin.md section 6).
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "base/result.h"
#include "host/mig_minors.h"
#include "io/file_watcher.h"
#include "io/stop.h"
#include "node/device_plugin/health_monitor.h"
#include "node/device_plugin/plugin.h"
#include "node/device_plugin/settings.h"
#include "node/mps_folder/service_watch.h"
#include "nvml/nvml.h"

namespace pitcrew::node::device_plugin {

// Where the node's files are, so that a test can give another tree.
struct NodePaths {
  std::filesystem::path cdi_folder = "/var/run/cdi";
  std::filesystem::path mps_folder = "/mps";
  std::filesystem::path proc = "/proc";
  // Device folders of sysfs, best first: the host's own where a pod mounts it.
  std::vector<std::filesystem::path> pci_devices = {"/host/sys/bus/pci/devices",
                                                    "/sys/bus/pci/devices"};
};

// One thread runs it; NVML's events and the kubelet's calls come from others.
class Daemon {
 public:
  // SIGHUP arrives through `reload`; both must outlive the daemon.
  Daemon(Options options, NodePaths paths, const io::SignalReceiver& reload, io::StopToken stop);
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  // Serves until the stop. An error is one that upstream ends with, too: wrong settings, a driver
  // that cannot be reached (unless told to wait for it), a MIG layout that fits no strategy.
  base::Status Run();

 private:
  enum class Occasion { kStart, kReload, kDevicesChanged };

  base::Status Load(Occasion occasion);
  base::Result<gpu::Inventory> ReadGpus(const Settings& settings, Occasion occasion);
  // What was published last stays published.
  void CloseLibrary();
  base::Status Offer(const gpu::Inventory& inventory, Settings settings, Occasion occasion);
  base::Status WatchHealth(const gpu::Inventory& inventory, Occasion occasion);
  void UpdatePlugins(ResourceMap devices, const std::shared_ptr<const Snapshot>& snapshot);

  void WatchFolders(const Settings& settings);
  // Folders that do not exist are left out.
  void Watch(const std::vector<std::filesystem::path>& folders);
  base::Status HandleFileChanges();
  // Offers every resource that may be.
  void OfferAll();
  // Whether containers may be given the device: its GPU is fit, and where it is shared through an
  // MPS server, that runs.
  [[nodiscard]] bool IsUsable(const std::string& resource, const OfferedDevice& device) const;
  void PublishHealth();
  [[nodiscard]] std::filesystem::path plugin_folder() const;

  const Options options_;
  const NodePaths paths_;
  const io::SignalReceiver& reload_;
  const io::StopToken stop_;
  std::optional<io::FileWatcher> watcher_;
  std::shared_ptr<nvml::Library> library_;
  std::vector<std::string> gpu_uuids_;  // that monitor_ watches
  std::unique_ptr<HealthMonitor> monitor_;
  std::unique_ptr<kubelet_plugin::PluginHost> host_;
  std::map<std::string, std::unique_ptr<ResourcePlugin>> plugins_;  // end before host_
  std::set<std::string> mps_resources_;
  std::optional<mps_folder::ServiceWatch> mps_services_;
};

}  // namespace pitcrew::node::device_plugin
