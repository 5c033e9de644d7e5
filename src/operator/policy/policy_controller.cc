#include "operator/policy/policy_controller.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "api/labels.h"
#include "base/log.h"
#include "base/strings.h"
#include "desired/cluster_kinds.h"
#include "desired/namespace_labels.h"
#include "desired/node_labels.h"
#include "operator/metrics/driver_toolkit.h"

namespace pitcrew::gpu_operator {
namespace {

using codec::Json;

// Changes that come in bursts (nodes joining, pods becoming ready) are looked at together.
constexpr std::chrono::milliseconds kBurst{100};

StatusSubject SubjectOf(const desired::PolicyView& view) {
  return {.owner = desired::Owner::Of(view.policy), .status = view.status, .version = view.version};
}

}  // namespace

bool IsSameForPolicy(const desired::OwnedObject& a, const desired::OwnedObject& b) {
  return a.fingerprint == b.fingerprint && a.daemonset == b.daemonset && a.keys == b.keys &&
         a.data_digest == b.data_digest && a.deleting == b.deleting;
}

PolicyController::PolicyController(World& world, Metrics& metrics, kube::EventRecorder& events,
                                   PolicyControllerOptions options)
    : world_(world),
      metrics_(metrics),
      options_(std::move(options)),
      controller_({.name = "clusterpolicies", .workers = 1, .synced = options_.synced},
                  [this](const kube::ObjectKey& key, const io::StopToken& stop) {
                    return Reconcile(key, stop);
                  }),
      status_writer_(world_.client, desired::kClusterPolicies, events, options_.progress_interval,
                     [this](const std::string& name, std::chrono::nanoseconds delay) {
                       controller_.EnqueueAfter({.namespace_name = "", .name = name}, delay);
                     }),
      facts_(world_, [this] { EnqueuePoliciesSoon(); }),
      lagging_pods_(
          world_.client, world_.operator_namespace, [this] { EnqueuePoliciesSoon(); },
          [this](std::chrono::nanoseconds delay) {
            for (const auto& [key, view] : world_.policies.store().Snapshot()) {
              controller_.EnqueueAfter(key, delay);
            }
          }) {
  WatchSources();
}

void PolicyController::WatchSources() {
  world_.server_answered = [this] {
    facts_.ServerMayHaveChanged();
    EnqueuePoliciesSoon();
  };
  // One policy may become the active one because another went: every change concerns them all.
  controller_.Watch<desired::PolicyView>(
      world_.policies,
      [this](const kube::Change<desired::PolicyView>& change, const auto& enqueue) {
        const bool gone =
            change.before != nullptr && (change.now == nullptr || change.now->deleting ||
                                         change.now->policy.uid != change.before->policy.uid);
        if (gone) {
          const std::lock_guard lock(rollout_mutex_);
          if (rollout_uid_ == change.before->policy.uid) rollout_->End();
        }
        enqueue(change.key);
        EnqueuePolicies();
      });
  controller_.Watch<desired::Node>(
      world_.nodes, [this](const kube::Change<desired::Node>& change, const auto&) {
        if (change.before != nullptr && change.now != nullptr &&
            desired::ShareOf(*change.before) == desired::ShareOf(*change.now)) {
          return;
        }
        EnqueuePoliciesSoon();
      });
  if (world_.gpu_clusters) {
    controller_.Watch<bool>(*world_.gpu_clusters, [this](const kube::Change<bool>&, const auto&) {
      EnqueuePoliciesSoon();
    });
  }
  for (Inventory::Kind& kind : world_.inventory.kinds()) {
    const kube::ResourceKind* resource = kind.kind;
    controller_.Watch<desired::OwnedObject>(
        *kind.informer,
        [this, resource](const kube::Change<desired::OwnedObject>& change, const auto&) {
          if (change.now == nullptr) {
            const std::lock_guard lock(rollout_mutex_);
            if (rollout_ != nullptr) rollout_->Forget(*resource, change.key);
          } else if (change.before != nullptr && IsSameForPolicy(*change.before, *change.now)) {
            return;
          }
          EnqueuePoliciesSoon();
        });
  }
}

void PolicyController::EnqueuePolicies() {
  for (const auto& [key, view] : world_.policies.store().Snapshot()) controller_.Enqueue(key);
}

void PolicyController::EnqueuePoliciesSoon() {
  for (const auto& [key, view] : world_.policies.store().Snapshot()) {
    controller_.EnqueueAfter(key, kBurst);
  }
}

base::Result<kube::Action> PolicyController::Reconcile(const kube::ObjectKey& key,
                                                       const io::StopToken& stop) {
  const auto found = world_.policies.store().Find(key);
  if (found.is_unknown()) return base::Fail(*found.error());
  if (found.is_absent() || (*found.value())->deleting) return kube::Action::Done();
  const desired::PolicyView& view = **found.value();
  const auto active = world_.ActivePolicy();
  if (active == nullptr) return kube::Action::Done();
  if (active->policy.uid == view.policy.uid) return ReconcileActive(view, stop);
  TRY(status_writer_.Write(
      SubjectOf(view),
      [&](const Json& previous) {
        return desired::MakeIgnoredStatus(active->policy.name, world_.operator_namespace,
                                          view.policy.generation, previous, base::WallClock::now());
      },
      stop));
  return kube::Action::Done();
}

base::Result<kube::Action> PolicyController::ReconcileActive(const desired::PolicyView& view,
                                                             const io::StopToken& stop) {
  metrics_.Increment("gpu_operator_reconciliation_total");
  if (rollout_uid_ != view.policy.uid) {
    auto rollout =
        std::make_shared<Rollout>(world_.client, world_.inventory, world_.operator_namespace,
                                  view.policy.uid, world_.operands);
    rollout->set_lagging_pods(&lagging_pods_);
    const std::lock_guard lock(rollout_mutex_);
    rollout_ = std::move(rollout);
    rollout_uid_ = view.policy.uid;
  }
  rollout_->BeginPass();
  const desired::PolicyOutcome outcome = Pass(view, stop);
  if (stop.stopped() || rollout_->ended()) return kube::Action::Done();
  Measure(outcome);
  TRY(status_writer_.Write(
      SubjectOf(view),
      [&](const Json& previous) {
        return desired::MakeStatus(outcome, world_.operator_namespace, view.policy.generation,
                                   previous, base::WallClock::now());
      },
      stop));
  // A wrong policy is not tried again until something changes; everything else after a back-off.
  bool refused = false;
  for (const desired::OperandReport& report : outcome.operands) {
    if (report.verdict != desired::Verdict::kFailed) continue;
    refused = refused || report.retry == desired::Retry::kLater;
    if (report.retry != desired::Retry::kSoon) continue;
    return base::Fail(
        base::Unavailable(report.reason, fmt::format("{}: {}", report.state, report.message)));
  }
  // The watch of GPUClusters tells when there is none any longer.
  if (!world_.GpuClusters().empty()) return kube::Action::Done();
  if (!outcome.failures.empty()) {
    return base::Fail(base::Unavailable("ReconcileFailed", base::Join(outcome.failures, "; ")));
  }
  if (rollout_->pending()) return kube::Action::RequeueAfter(kEchoTimeout);
  if (refused) return kube::Action::RequeueAfter(options_.refusal_retry);
  return kube::Action::Done();
}

desired::PolicyOutcome PolicyController::Pass(const desired::PolicyView& view,
                                              const io::StopToken& stop) {
  desired::PolicyOutcome outcome;
  outcome.removals_held = options_.removals_held();
  outcome.schema_outdated = options_.schema_outdated();
  outcome.upgrade_stopped = options_.upgrade_stopped();
  outcome.upgrades_incomplete =
      view.policy.driver.use_nvidia_driver_crd && options_.upgrades_incomplete();
  if (const auto clusters = world_.GpuClusters(); !clusters.empty()) {
    outcome.failures.push_back(desired::GpuClusterConflict(clusters.front(), view.policy.name));
    return outcome;
  }
  const auto facts = facts_.Gather(desired::ReferencesOf(view.policy), stop);
  if (!facts) {
    outcome.failures.push_back(facts.error().message);
    return outcome;
  }
  outcome.nfd_labels = facts->nfd_labels;
  outcome.gpu_nodes = facts->gpu_nodes > 0;
  outcome.first_gpu_nodes_joining = !outcome.gpu_nodes && facts->joining_gpu_nodes > 0;
  MeasureDriverToolkit(view.policy, *facts);
  if (const auto labelled = LabelNamespace(view.policy, *facts, stop); !labelled) {
    outcome.failures.push_back(labelled.error().Within("label the operator's namespace").message);
  }
  const desired::Context context{.policy = view.policy,
                                 .facts = *facts,
                                 .images = options_.images,
                                 .operator_namespace = world_.operator_namespace,
                                 .operands = world_.operands};
  const std::vector<desired::RenderedOperand> rendered = Render(context);
  rollout_->DecideRemovals(rendered, stop);
  for (const desired::RenderedOperand& operand : rendered) {
    outcome.operands.push_back(rollout_->Run(operand, stop));
  }
  MeasureOperands(outcome);
  std::set<std::string> behind;
  for (const desired::OperandReport& report : outcome.operands) {
    for (const desired::DaemonSetProgress& daemonset : report.daemonsets) {
      if (!daemonset.ready()) behind.insert(daemonset.name);
    }
  }
  lagging_pods_.Keep(behind);
  if (const auto removed = rollout_->RemoveFormerOperands(stop); !removed) {
    outcome.failures.push_back(removed.error().message);
  }
  return outcome;
}

base::Status PolicyController::LabelNamespace(const api::ClusterPolicy& policy,
                                              const desired::Facts& facts,
                                              const io::StopToken& stop) {
  const std::string version = fmt::format("{}/{}", policy.uid, policy.generation);
  if (labelled_namespace_for_ == version || (!policy.psa_enabled && !facts.openshift())) return {};
  const kube::ObjectKey key{.namespace_name = "", .name = world_.operator_namespace};
  TRY_ASSIGN(const Json current, world_.client->Get(kube::kNamespaces, key, stop));
  const auto labels = desired::MissingNamespaceLabels(policy, facts, current);
  if (!labels.empty()) {
    TRY(world_.client->Patch(kube::kNamespaces, key, kube::PatchType::kMerge,
                             desired::NamespacePatch(labels, current),
                             {.field_manager = std::string(desired::kFieldManager)}, stop));
  }
  labelled_namespace_for_ = version;
  return {};
}

void PolicyController::MeasureOperands(const desired::PolicyOutcome& outcome) {
  std::vector<DaemonSetPodCounts> counts;
  for (const desired::OperandReport& report : outcome.operands) {
    metrics_.SetOperandSeconds(report.state,
                               std::chrono::duration<double>(report.duration).count());
    for (const desired::DaemonSetProgress& daemonset : report.daemonsets) {
      counts.push_back({.state = std::string(report.state),
                        .name = daemonset.name,
                        .desired = daemonset.status.desired,
                        .updated = daemonset.status.updated,
                        .ready = daemonset.status.available});
    }
  }
  metrics_.SetDaemonSets(std::move(counts));
}

void PolicyController::MeasureDriverToolkit(const api::ClusterPolicy& policy,
                                            const desired::Facts& facts) {
  for (const auto& [name, value] : DriverToolkitMetrics(policy, facts)) {
    metrics_.Set(fmt::format("gpu_operator_openshift_driver_toolkit_{}", name), value);
  }
}

void PolicyController::Measure(const desired::PolicyOutcome& outcome) {
  const desired::PolicyState state = desired::StateOf(outcome);
  const bool unworkable = outcome.operands.empty();
  metrics_.Set("gpu_operator_gpu_nodes_total", static_cast<double>(world_.fleet.sizes().gpu_nodes));
  // Of the nodes themselves: they are known also where other facts are not.
  const bool nfd_labels = world_.NodeFacts().nfd_labels;
  metrics_.Set("gpu_operator_reconciliation_has_nfd_labels", nfd_labels ? 1 : 0);
  metrics_.Set("gpu_operator_reconciliation_status",
               unworkable ? -1 : (state == desired::PolicyState::kReady ? 1 : 0));
  if (state != desired::PolicyState::kReady) {
    metrics_.Increment("gpu_operator_reconciliation_failed_total");
  } else if (nfd_labels) {
    const auto now = base::WallClock::now().time_since_epoch();
    metrics_.Set("gpu_operator_reconciliation_last_success_ts_seconds",
                 std::chrono::duration<double>(now).count());
  }
}

}  // namespace pitcrew::gpu_operator
