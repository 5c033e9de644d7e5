// The life of a device plugin for virtual machines: look at the node, offer, and look again when
// the kernel tells of a change.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/result.h"
#include "host/root.h"
#include "host/uevent.h"
#include "io/file_watcher.h"
#include "io/stop.h"
#include "node/kubelet_plugin/plugin_host.h"
#include "node/sandbox_device_plugin/cdi_files.h"
#include "node/sandbox_device_plugin/offers.h"
#include "node/sandbox_device_plugin/plugin.h"
#include "node/sandbox_device_plugin/reporter.h"
#include "node/sandbox_device_plugin/settings.h"
#include "node/vgpu_types/known_types.h"

namespace pitcrew::node::sandbox_device_plugin {

// Where the node's files are, so that a test can give another tree.
struct NodePaths {
  // The tree with the host's /sys: where a pod has it elsewhere than at its own, that one.
  host::Root sys = FindSys();
  host::Root dev;
  std::filesystem::path cdi_folder = "/var/run/cdi";
  // What vGPU types are called that full GPUs do not tell.
  std::filesystem::path known_vgpu_types = vgpu_types::kKnownTypesFile;
  std::chrono::milliseconds first_retry{1000};
  std::chrono::milliseconds longest_retry{60000};

  static host::Root FindSys();
};

// One thread runs it; the kubelet's calls come from others. Devices are found by what the kernel
// announces (uevents), by nodes that come and go below /dev, and by writes to the attributes of
// vGPUs without mediated devices, of which the kernel announces nothing. Whatever could not be read
// is read again after a while; until then what was offered stays.
class Daemon {
 public:
  Daemon(Options options, NodePaths paths, io::StopToken stop);
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  // Serves until the stop. An error is one of the start: no database of names, no plugin folder.
  base::Status Run();

 private:
  base::Status Prepare();
  void Look();
  void Offer(const Machine& machine);
  void UpdatePlugins(const Resources& resources);
  base::Result<rpc::ContainerAllocation> Allocate(const std::string& resource,
                                                  const std::vector<OfferedDevice>& offered,
                                                  const std::vector<std::string>& ids) const;
  void Watch();
  void WatchIfThere(const std::filesystem::path& folder);
  void WatchVgpuTypes();
  vgpu_types::KnownTypes KnownTypes() const;
  void TryLater();
  // Waits for something that may concern devices. False at the stop.
  base::Result<bool> WaitForChange();
  bool TakeUevents();
  bool TakeFileChanges();

  const Options options_;
  const NodePaths paths_;
  const io::StopToken stop_;
  Naming naming_;
  std::optional<io::FileWatcher> watcher_;
  std::optional<host::UeventReceiver> uevents_;
  std::unique_ptr<Reporter> reporter_;
  CdiFiles cdi_files_;
  mutable std::mutex mutex_;
  vgpu_types::KnownTypes known_types_;  // guarded by mutex_
  Resources offered_;
  bool looked_ = false;
  std::optional<base::SteadyClock::time_point> look_at_;  // without any event
  int failures_ = 0;
  std::unique_ptr<kubelet_plugin::PluginHost> host_;
  std::map<std::string, std::unique_ptr<ResourcePlugin>> plugins_;  // end before host_
};

}  // namespace pitcrew::node::sandbox_device_plugin
