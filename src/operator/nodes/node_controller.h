// Writes the operator's labels and annotations onto nodes: one node is one key, one patch per node,
// nothing when nothing differs.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "desired/node_labels.h"
#include "desired/removal_budget.h"
#include "io/stop.h"
#include "kube/concurrency.h"
#include "kube/controller.h"
#include "kube/events.h"
#include "operator/watches/world.h"

namespace pitcrew::gpu_operator {

class NodeController {
 public:
  // A node loses its GPU labels only after its GPU has been gone for `removal_grace`: time enough
  // for a wave of such losses to be seen as one, and for a restarted discovery to write its labels
  // again. `budget` remembers the losses before; it and `events` must outlive this object.
  // `synced` is called once, when everything has been listed. World::Stop before this object goes.
  NodeController(World& world, std::chrono::milliseconds removal_grace,
                 desired::RemovalBudget& budget, kube::EventRecorder& events,
                 std::function<void()> synced = {});

  base::Status Run(const io::StopToken& stop) { return controller_.Run(stop); }
  [[nodiscard]] kube::ControllerStatistics statistics() const { return controller_.statistics(); }
  // Why removals are held back now; "" when none is.
  [[nodiscard]] std::string removals_held() const;

 private:
  base::Result<kube::Action> Reconcile(const kube::ObjectKey& key, const io::StopToken& stop);
  // Remembers when the last policy was deleted.
  void NotePolicy(const kube::Change<desired::PolicyView>& change);
  // Whether nodes are to be left: the last policy was deleted while we watched. That none can be
  // seen, after a start or because a read failed, is no reason.
  [[nodiscard]] bool cleaning_up() const;
  // Keeps the budget up to date with what nodes have lost and have again.
  void NoteLoss(const kube::Change<desired::Node>& change);
  // An Event on a node whose label newly asks for a workload that there is not.
  void TellUnknownWorkload(const kube::Change<desired::Node>& change);
  // An Event on a node that is not divided although its annotation asks for that: once a reason.
  void TellSplitIgnored(const desired::Node& node, const desired::NodePolicy& policy);
  void Warn(const std::string& node, std::string reason, std::string message);
  // All nodes again when the main runtime has become another one.
  void LookAtRuntimes();
  // Nothing when a node may lose its GPU labels now; otherwise what to wait for.
  std::optional<kube::Action> WaitBeforeRemoval(const std::string& node,
                                                const desired::PolicyView& policy);
  base::Status Patch(const std::string& node, const desired::NodeDecision& decision,
                     const io::StopToken& stop);
  // How long to wait for the watch to tell of our last patch; none when it has, or takes too long.
  std::optional<std::chrono::nanoseconds> EchoAwaited(const desired::Node& node);

  // Whether removals are held; `mutex_` must not be held.
  [[nodiscard]] bool HoldsRemovals() const;

  World& world_;
  desired::RemovalBudget& budget_;  // under the mutex
  kube::EventRecorder& events_;
  std::chrono::milliseconds removal_grace_;
  std::atomic<bool> policy_deleted_ = false;
  bool mass_removal_ = false;  // at the last event of a node; the informer's thread only
  mutable std::mutex mutex_;
  std::optional<desired::Runtime> main_runtime_;
  // Nodes whose GPU is gone, and since when this process has seen that.
  std::map<std::string, base::SteadyClock::time_point> losing_;
  std::map<std::string, std::string> not_divided_;  // nodes, and why, as it was told
  struct Patched {
    std::uint64_t version = 0;  // of the node after our patch
    base::SteadyClock::time_point at;
  };
  std::map<std::string, Patched> patched_;  // nodes of which the watch has not told since
  kube::CallPace pace_;                     // of patches
  kube::Controller controller_;
};

}  // namespace pitcrew::gpu_operator
