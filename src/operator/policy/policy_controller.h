// Brings the cluster to what the active ClusterPolicy says, and says in its status how far that is.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "base/result.h"
#include "desired/image.h"
#include "desired/status.h"
#include "io/stop.h"
#include "kube/controller.h"
#include "kube/events.h"
#include "operator/metrics/metrics.h"
#include "operator/policy/live_facts.h"
#include "operator/policy/status_writer.h"
#include "operator/roll_out/lagging_pods.h"
#include "operator/roll_out/rollout.h"
#include "operator/watches/world.h"

namespace pitcrew::gpu_operator {

struct PolicyControllerOptions {
  desired::DefaultImages images = {};
  // As in NodeController.
  std::function<std::string()> removals_held = [] { return ""; };
  // As in DefinitionController.
  std::function<std::string()> schema_outdated = [] { return ""; };
  // As in UpgradeController.
  std::function<std::string()> upgrade_stopped = [] { return ""; };
  std::function<bool()> upgrades_incomplete = [] { return false; };
  // How often a status is written in which nothing but messages is new: how far a roll-out is.
  std::chrono::milliseconds progress_interval = std::chrono::seconds(5);
  // When an object is tried again that the API server refused as invalid.
  std::chrono::milliseconds refusal_retry = std::chrono::minutes(1);
  // Called once, when everything has been listed.
  std::function<void()> synced = {};
};

// Whether a roll-out would decide the same by both: what differs is bookkeeping (resourceVersion).
bool IsSameForPolicy(const desired::OwnedObject& a, const desired::OwnedObject& b);

class PolicyController {
 public:
  // All must outlive this object. World::Stop before this object goes.
  PolicyController(World& world, Metrics& metrics, kube::EventRecorder& events,
                   PolicyControllerOptions options);

  base::Status Run(const io::StopToken& stop) { return controller_.Run(stop); }
  // Looks at every policy again.
  void EnqueuePolicies();
  [[nodiscard]] kube::ControllerStatistics statistics() const { return controller_.statistics(); }

 private:
  base::Result<kube::Action> Reconcile(const kube::ObjectKey& key, const io::StopToken& stop);
  base::Result<kube::Action> ReconcileActive(const desired::PolicyView& view,
                                             const io::StopToken& stop);
  desired::PolicyOutcome Pass(const desired::PolicyView& view, const io::StopToken& stop);
  base::Status LabelNamespace(const api::ClusterPolicy& policy, const desired::Facts& facts,
                              const io::StopToken& stop);
  void Measure(const desired::PolicyOutcome& outcome);
  void MeasureOperands(const desired::PolicyOutcome& outcome);
  void MeasureDriverToolkit(const api::ClusterPolicy& policy, const desired::Facts& facts);
  void EnqueuePoliciesSoon();
  void WatchSources();

  World& world_;
  Metrics& metrics_;
  PolicyControllerOptions options_;
  std::string labelled_namespace_for_;  // uid and generation of the policy
  std::mutex rollout_mutex_;            // guards the pointer, not the rollout
  std::shared_ptr<Rollout> rollout_;
  std::string rollout_uid_;
  kube::Controller controller_;
  StatusWriter status_writer_;
  // Their watches call the controller: they end first.
  LiveFacts facts_;
  LaggingPods lagging_pods_;
};

}  // namespace pitcrew::gpu_operator
