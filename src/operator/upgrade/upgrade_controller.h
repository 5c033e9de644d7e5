// Carries out what driver_upgrade decides: rolls a changed driver out over the nodes
// (driver-lifecycle.md section 2). One node is one key, which goes on the moment its pod is gone,
// ready or validated; how many nodes may begin is the key of the wave.
//
// Every write of a node is decided on the node as it has just been read, and fails when it has
// changed since: what an upgrade has done and what it has to do next stands in the cluster alone.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "driver_upgrade/pods.h"
#include "driver_upgrade/step.h"
#include "io/stop.h"
#include "kube/controller.h"
#include "kube/events.h"
#include "operator/metrics/metrics.h"
#include "operator/upgrade/by_node.h"
#include "operator/upgrade/grants.h"
#include "operator/upgrade/node_work.h"
#include "operator/watches/world.h"

namespace pitcrew::gpu_operator {

class UpgradeController {
 public:
  // `stopped_changed` is called when what stopped() says has become something else, from a thread
  // of this object, and must not block; `synced` once, when everything has been listed. All must
  // outlive this object. World::Stop before this object goes.
  UpgradeController(World& world, Metrics& metrics, kube::EventRecorder& events,
                    std::function<void()> stopped_changed, std::function<void()> synced = {});

  base::Status Run(const io::StopToken& stop) { return controller_.Run(stop); }
  [[nodiscard]] kube::ControllerStatistics statistics() const { return controller_.statistics(); }
  // Why no other node will begin until a person does something; "" normally.
  [[nodiscard]] std::string stopped() const;
  // Adds the watches and their stores.
  void Expose(prom::Exposition& exposition) const;

 private:
  // What the policy wants of the upgrade.
  struct Settings {
    bool enabled = false;
    api::UpgradePolicy policy;
  };
  // None while that is not known, or not to be done: the nodes stay as they are.
  [[nodiscard]] std::optional<Settings> CurrentSettings() const;

  base::Result<kube::Action> Reconcile(const kube::ObjectKey& key, const io::StopToken& stop);
  base::Result<kube::Action> ReconcileWave(const io::StopToken& stop);
  base::Result<kube::Action> ReconcileNode(const std::string& name, const io::StopToken& stop);
  // Steps until one has to wait. `live` is the Node object.
  base::Result<kube::Action> Advance(const std::string& name, codec::Json live,
                                     const Settings& settings, const io::StopToken& stop);
  base::Result<driver_upgrade::Step> Decide(const desired::Node& node, const Settings& settings);
  // The node after the write; nothing when it has changed meanwhile, or is gone.
  base::Result<std::optional<codec::Json>> Write(const codec::Json& live,
                                                 const driver_upgrade::Step& step,
                                                 const io::StopToken& stop);
  base::Status Begin(const desired::Node& node, driver_upgrade::Work work, const Settings& settings,
                     const io::StopToken& stop);
  base::Status DeleteDriverPod(const std::string& node, const io::StopToken& stop);
  void Tell(const codec::Json& node, const std::vector<driver_upgrade::Note>& notes);
  // Whether the API server takes the selectors of the policy: "", or what it says about one.
  base::Result<std::string> CheckSelectors(const api::UpgradePolicy& policy,
                                           const io::StopToken& stop);
  void SetStopped(const std::string& why);
  void MeasureNothing();
  void ReadTemplates();
  void NoteState(const kube::Change<desired::Node>& change);
  // Nodes that the limits look at, sorted.
  [[nodiscard]] std::set<std::string> NodesOfWave() const;
  void EnqueueNode(const std::string& name);
  void EnqueueWave();
  void WatchSources();

  World& world_;
  Metrics& metrics_;
  kube::EventRecorder& events_;
  std::function<void()> stopped_changed_;
  Grants grants_;
  ByNode<driver_upgrade::DriverPod> driver_pods_;
  ByNode<driver_upgrade::ValidatorPod> validator_pods_;
  mutable std::mutex mutex_;
  // Nodes with a state. One whose driver pod is being replaced has none, and counts all the same.
  std::set<std::string> nodes_with_state_;
  std::shared_ptr<const driver_upgrade::Templates> templates_;
  std::string stopped_;
  std::string checked_selectors_;  // the wave's alone
  std::string selector_problem_;
  std::string held_;  // the wave's alone: why none begins, as last told in the log
  kube::Controller controller_;
  NodeWork work_;
  // Their threads use all of the above: they end first.
  kube::Informer<driver_upgrade::DriverDaemonSet> daemonset_watch_;
  kube::Informer<driver_upgrade::Revision> revision_watch_;
  kube::Informer<driver_upgrade::DriverPod> driver_pod_watch_;
  kube::Informer<driver_upgrade::ValidatorPod> validator_pod_watch_;
};

}  // namespace pitcrew::gpu_operator
