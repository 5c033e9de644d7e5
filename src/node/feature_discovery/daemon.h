// Feature discovery's life (feature-discovery.md section 2), with two differences: it looks again
// when something changes, not only when time has passed, and a look that fails changes no label.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "host/uevent.h"
#include "io/file_watcher.h"
#include "io/stop.h"
#include "node/feature_discovery/output.h"
#include "node/feature_discovery/settings.h"
#include "node/validations/mig_change.h"
#include "node/validations/status_folder.h"
#include "nvml/nvml.h"

namespace pitcrew::node::feature_discovery {

// Where the node's files are, so that a test can give another tree.
struct NodePaths {
  std::filesystem::path pci_devices = "/sys/bus/pci/devices";
  std::filesystem::path validations = validations::kFolder;
};

class Daemon {
 public:
  // Makes the output for the settings of one load.
  using OpenOutput = std::function<base::Result<std::unique_ptr<Output>>(const Settings&)>;

  // Hears of a configuration that is not taken; the one of before goes on.
  using Refused = std::function<void(const base::Error&)>;

  // SIGHUP arrives through `reload`, which must outlive the daemon.
  Daemon(Options options, NodePaths paths, OpenOutput open_output, Refused refused,
         const io::SignalReceiver& reload, io::StopToken stop);
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  // Until the stop, or once with --oneshot. Errors: wrong settings at the start; before anything
  // was labelled, a driver that cannot be reached (unless told to wait for it); with --oneshot
  // every failure.
  base::Status Run();

 private:
  base::Status Load();
  // Reads, describes, publishes. What was published before stays when that fails.
  base::Status Look();
  base::Result<Facts> ReadFacts();
  base::Result<gpu::Inventory> ReadGpus();
  // Waits for the next reason to look; false on stop.
  base::Result<bool> WaitForChange();
  // What the MIG manager announces is followed without a restart (validations/mig_change.h).
  void FollowMigChanges();
  void WatchFolders();
  base::Result<bool> TakeAnnouncements();

  const Options options_;
  const NodePaths paths_;
  const OpenOutput open_output_;
  const Refused refused_;
  const io::SignalReceiver& reload_;
  const io::StopToken stop_;
  std::optional<io::FileWatcher> watcher_;
  std::optional<host::UeventReceiver> kernel_;
  std::optional<validations::MigFollower> mig_;
  Settings settings_;
  std::unique_ptr<Output> output_;
  std::shared_ptr<nvml::Library> library_;
  std::optional<std::int64_t> timestamp_;
  bool labelled_ = false;  // since the last load
  bool driver_unreachable_ = false;
  int failures_ = 0;  // one after another
};

}  // namespace pitcrew::node::feature_discovery
