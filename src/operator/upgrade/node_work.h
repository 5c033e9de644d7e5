// What takes time on nodes that are upgraded: pods that are sent away, jobs that are waited for.
// Nothing of it is kept over a restart: the state label of the node says what is to be done, and
// pods that are gone stay gone.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "api/cluster_policy.h"
#include "base/clock.h"
#include "base/result.h"
#include "codec/json.h"
#include "driver_upgrade/step.h"
#include "io/stop.h"
#include "kube/client.h"
#include "kube/informer.h"
#include "workload/drain.h"

namespace pitcrew::gpu_operator {

// What is sent away from a node.
struct PodsToRemove {
  bool only_gpu = false;       // those that use GPUs; else all that the selector means
  std::string label_selector;  // for all
  api::PodRemoval how;
};

// Each removal has a watch and a thread for every pod, so not all are at it at once.
struct RemovalLimits {
  std::size_t at_once = 100;
  // A removal that a disruption budget has blocked for so long lets one that waits go first.
  std::chrono::milliseconds held_up = std::chrono::seconds(10);
};

// Thread-safe.
class NodeWork {
 public:
  // `changed` is called with a node about which something else can be told, and `held_up` with one
  // that a disruption budget holds up: both from other threads, and neither may block.
  NodeWork(std::shared_ptr<kube::Client> client, std::function<void(const std::string&)> changed,
           std::function<void(const std::string& node, const std::string& why)> held_up,
           const RemovalLimits& limits = {});
  ~NodeWork();
  NodeWork(const NodeWork&) = delete;
  NodeWork& operator=(const NodeWork&) = delete;

  // Begins unless the same has begun already; ends at the latest with `stop`. The time limit of
  // `pods` counts from the first time.
  void Remove(const std::string& node, const PodsToRemove& pods, const io::StopToken& stop);
  // How far it is. An error, returned once: the API server did not answer, and Remove begins it
  // again.
  base::Result<driver_upgrade::Removal> RemovalOf(const std::string& node, bool only_gpu);
  // Likewise.
  void WatchJobs(const std::string& node, const std::string& label_selector);
  [[nodiscard]] driver_upgrade::Jobs JobsOf(const std::string& node,
                                            const std::string& label_selector) const;

  // Ends what the node's state needs no longer. Waits for it.
  void Keep(const std::string& node, api::UpgradeState state);

 private:
  struct RemovalJob {
    PodsToRemove pods;
    std::optional<base::SteadyClock::time_point> begun;
    driver_upgrade::Removal removal;
    std::optional<base::Error> trouble;  // it has to be begun again
    bool told = false;                   // of the trouble
    io::StopSource ending;
    // The present turn. Guarded by mutex_, as what follows.
    std::optional<io::StopSource> turn;
    std::optional<base::SteadyClock::time_point> held_up_since;
    bool makes_room = false;
    std::set<kube::ObjectKey> told_of;  // pods that are held up
    std::thread thread;
  };
  struct JobWatch {
    std::string label_selector;
    std::unique_ptr<kube::Informer<bool>> informer;
  };
  struct Node {
    std::shared_ptr<RemovalJob> gpu_pods;
    std::shared_ptr<RemovalJob> drain;
    std::unique_ptr<JobWatch> jobs;
  };
  // Waits until few enough removals are under way, in the order of coming; false on stop.
  bool TakeTurn(RemovalJob& job, const io::StopToken& stop);
  // Whether it is to take another turn, after those that wait.
  bool GiveTurn(RemovalJob& job);
  // Under the lock: ends the turn of the removal that has been held up the longest, if it has been
  // so for long enough. When to ask again; nothing where only a change can help.
  std::optional<base::SteadyClock::time_point> MakeRoom();
  void NoteHeldUp(const std::string& node, RemovalJob& job, const kube::ObjectKey& pod,
                  const base::Error& why);
  void Run(const std::string& node, RemovalJob& job);
  base::Result<int> RemovePods(const std::string& node, RemovalJob& job, const io::StopToken& stop);
  // Waits for the job's thread.
  void End(const std::shared_ptr<RemovalJob>& job);

  std::shared_ptr<kube::Client> client_;
  std::function<void(const std::string&)> changed_;
  std::function<void(const std::string&, const std::string&)> held_up_;
  mutable std::mutex mutex_;
  std::map<std::string, Node> nodes_;
  const RemovalLimits limits_;
  std::condition_variable turns_changed_;
  std::deque<RemovalJob*> waiting_;
  std::set<RemovalJob*> turns_;
};

}  // namespace pitcrew::gpu_operator
