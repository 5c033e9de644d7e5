// Carries out what driver_upgrade decides: rolls a changed driver out over the nodes
// (driver-lifecycle.md section 2). One node is one key, which goes on the moment its pod is gone,
// ready or validated; how many nodes may begin is the key of the wave.
//
// Every write of a node is decided on the node as it has just been read, and fails when it has
// changed since: what an upgrade has done and what it has to do next stands in the cluster alone.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "driver_upgrade/step.h"
#include "io/stop.h"
#include "kube/controller.h"
#include "kube/events.h"
#include "operator/metrics/metrics.h"
#include "operator/upgrade/driver_pods.h"
#include "operator/upgrade/image_checks.h"
#include "operator/upgrade/metrics_looks.h"
#include "operator/upgrade/node_work.h"
#include "operator/upgrade/pools.h"
#include "operator/upgrade/turns.h"
#include "operator/watches/world.h"

namespace pitcrew::gpu_operator {

class UpgradeController {
 public:
  // `told_changed` is called when what stopped() or incomplete() say has become something else,
  // from a thread of this object, and must not block; `synced` once, when everything has been
  // listed. All must outlive this object. World::Stop before this object goes.
  UpgradeController(World& world, Metrics& metrics, kube::EventRecorder& events,
                    std::function<void()> told_changed, std::function<void()> synced = {});

  base::Status Run(const io::StopToken& stop) { return controller_.Run(stop); }
  [[nodiscard]] kube::ControllerStatistics statistics() const { return controller_.statistics(); }
  // Why no other node will begin until a person does something; "" normally. Of the NVIDIADriver of
  // that name, or of the ClusterPolicy's driver ("").
  [[nodiscard]] std::string stopped(const std::string& driver) const {
    return turns_.stopped(driver);
  }
  // A node of a NVIDIADriver waits for its upgrade, is under way or has failed.
  [[nodiscard]] bool incomplete() const { return turns_.incomplete(); }
  // Adds the watches and their stores.
  void Expose(prom::Exposition& exposition) const {
    pods_.Expose(exposition);
    image_checks_.Expose(exposition);
  }

 private:
  base::Result<kube::Action> Reconcile(const kube::ObjectKey& key, const io::StopToken& stop);
  base::Result<kube::Action> ReconcileWave(const io::StopToken& stop);
  // Of a node that is one of the first: what its GPUs' metrics say.
  base::Result<kube::Action> ReconcileMetrics(const std::string& name, const io::StopToken& stop);
  base::Result<kube::Action> ReconcileNode(const std::string& name, const io::StopToken& stop);
  // Steps until one has to wait. `live` is the Node object.
  base::Result<kube::Action> Advance(const std::string& name, codec::Json live,
                                     const UpgradePool& pool, const io::StopToken& stop);
  base::Result<driver_upgrade::Step> Decide(const desired::Node& node, const UpgradePool& pool,
                                            const io::StopToken& stop);
  // The same before it is done: what rests on validators is decided again by a fresh read of them.
  base::Result<driver_upgrade::Step> DecideForGood(const desired::Node& node,
                                                   const UpgradePool& pool,
                                                   const io::StopToken& stop);
  base::Result<driver_upgrade::Step> DecideBy(const DriverPods::View& view,
                                              const desired::Node& node, const UpgradePool& pool);
  // The node after the write; nothing when it has changed meanwhile, or is gone.
  base::Result<std::optional<codec::Json>> Write(const codec::Json& live,
                                                 const driver_upgrade::Step& step,
                                                 const io::StopToken& stop);
  base::Status Begin(const desired::Node& node, driver_upgrade::Work work, const UpgradePool& pool,
                     const io::StopToken& stop);
  base::Status DeleteDriverPod(const std::string& node, const io::StopToken& stop);
  // The driver's pod goes on under the DaemonSet that waits for its place.
  base::Status HandOverPod(const std::string& node, const io::StopToken& stop);
  void Tell(const codec::Json& node, const std::vector<driver_upgrade::Note>& notes);
  void EnqueueNode(const std::string& name);
  void EnqueueWave();
  void WatchSources();

  World& world_;
  kube::EventRecorder& events_;
  std::atomic<bool> wave_sees_pods_ = false;  // the wave looks at pods, too
  kube::Controller controller_;
  NodeWork work_;
  // Its threads use all of the above: they end first.
  DriverPods pods_;
  ImageChecks image_checks_;
  Turns turns_;
  MetricsLooks looks_;
};

}  // namespace pitcrew::gpu_operator
