// The MPS control daemon's life: load, serve, and react to what changes (device-plugin.md section
// 17.1).
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "base/result.h"
#include "io/file_watcher.h"
#include "io/stop.h"
#include "node/mps/server.h"
#include "node/mps/settings.h"
#include "node/mps_folder/mps_folder.h"

namespace pitcrew::node::mps {

// One per process, whose orphans and unknown children it reaps. One thread runs it.
class Supervisor {
 public:
  // SIGHUP arrives through `reload`, SIGCHLD through `children`; both must outlive it.
  Supervisor(Options options, NodePaths paths, const io::SignalReceiver& reload,
             const io::SignalReceiver& children, io::StopToken stop);

  // Serves until the stop, then takes everything down. An error when the first configuration or the
  // node's GPUs do not allow it; later ones are logged, and what runs goes on.
  base::Status Run();

 private:
  base::Status Serve();
  base::Status Load();
  // Takes down what the plan does not have, keeps what it has unchanged.
  void Apply(Plan plan);
  base::Result<Plan> ReadPlan(const Settings& settings) const;
  // Brings up what is due and does not serve.
  void Start();
  void Reload();
  void HandleFileChanges();
  void ReapChildren();
  void WatchFolders();
  // `.ready` is there while everything serves.
  void TellWhetherReady();
  void RemoveReadyFile() const;
  [[nodiscard]] base::Deadline NextStart() const;

  const Options options_;
  const NodePaths paths_;
  const mps_folder::MpsFolder folder_;
  const io::SignalReceiver& reload_;
  const io::SignalReceiver& children_;
  const io::StopToken stop_;
  std::optional<io::FileWatcher> watcher_;
  std::set<std::filesystem::path> configuration_folders_;
  std::vector<std::unique_ptr<Server>> servers_;
  bool loaded_ = false;
  base::Deadline next_load_;  // while the driver cannot be reached
  std::optional<bool> ready_;
};

}  // namespace pitcrew::node::mps
