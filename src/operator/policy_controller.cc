#include "operator/policy_controller.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/labels.h"
#include "base/log.h"
#include "base/strings.h"
#include "operator/node_labels.h"

namespace pitcrew::gpu_operator {
namespace {

using codec::Json;

// Changes that come in bursts (nodes joining, pods becoming ready) are looked at together.
constexpr std::chrono::milliseconds kBurst{100};
// A Secret that a policy names is not watched: nobody keeps the secrets of a namespace in memory
// for the sake of one name.
constexpr std::chrono::seconds kSecretRetry{30};

kube::ObjectReference Reference(const PolicyView& view) {
  return {.api_version = std::string(api::kNvidiaV1),
          .kind = std::string(api::kClusterPolicyKind),
          .key = {.namespace_name = "", .name = view.policy.name},
          .uid = view.policy.uid,
          .resource_version = std::to_string(view.version)};
}

bool SameForPolicy(const OwnedObject& a, const OwnedObject& b) {
  return a.fingerprint == b.fingerprint && a.daemonset == b.daemonset && a.keys == b.keys &&
         a.deleting == b.deleting && a.state == b.state;
}

}  // namespace

PolicyController::PolicyController(World& world, DefaultImages images, Metrics& metrics,
                                   kube::EventRecorder& events,
                                   std::function<std::string()> removals_held)
    : world_(world),
      images_(std::move(images)),
      metrics_(metrics),
      events_(events),
      removals_held_(std::move(removals_held)),
      controller_({.name = "clusterpolicies", .workers = 1, .backoff = {}},
                  [this](const kube::ObjectKey& key, const io::StopToken& stop) {
                    return Reconcile(key, stop);
                  }) {
  WatchSources();
}

void PolicyController::WatchSources() {
  // One policy may become the active one because another went: every change concerns them all.
  controller_.Watch<PolicyView>(
      world_.policies, [this](const kube::Change<PolicyView>& change, const auto& enqueue) {
        enqueue(change.key);
        EnqueuePolicies();
      });
  controller_.Watch<Node>(world_.nodes, [this](const kube::Change<Node>& change, const auto&) {
    if (change.before != nullptr && change.now != nullptr &&
        SameForFacts(*change.before, *change.now) &&
        LosesGpu(*change.before) == LosesGpu(*change.now)) {
      return;
    }
    EnqueuePoliciesSoon();
  });
  for (Inventory::Kind& kind : world_.inventory.kinds()) {
    const kube::ResourceKind* resource = kind.kind;
    controller_.Watch<OwnedObject>(
        *kind.informer, [this, resource](const kube::Change<OwnedObject>& change, const auto&) {
          if (change.now == nullptr) {
            const std::lock_guard lock(rollout_mutex_);
            if (rollout_ != nullptr) rollout_->Forget(*resource, change.key);
          } else if (change.before != nullptr && SameForPolicy(*change.before, *change.now)) {
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
  const PolicyView& view = **found.value();
  const auto active = world_.ActivePolicy();
  if (active == nullptr) return kube::Action::Done();
  if (active->policy.uid == view.policy.uid) return ReconcileActive(view, stop);
  TRY(WriteStatus(
      view,
      [&](const Json& previous) {
        return MakeIgnoredStatus(active->policy.name, world_.operator_namespace,
                                 view.policy.generation, previous, base::WallClock::now());
      },
      stop));
  return kube::Action::Done();
}

base::Result<kube::Action> PolicyController::ReconcileActive(const PolicyView& view,
                                                             const io::StopToken& stop) {
  metrics_.Increment("gpu_operator_reconciliation_total");
  if (rollout_uid_ != view.policy.uid) {
    auto rollout = std::make_shared<Rollout>(world_.client, world_.inventory,
                                             world_.operator_namespace, view.policy.uid);
    const std::lock_guard lock(rollout_mutex_);
    rollout_ = std::move(rollout);
    rollout_uid_ = view.policy.uid;
  }
  rollout_->BeginPass();
  const PolicyOutcome outcome = Pass(view, stop);
  if (stop.stopped()) return kube::Action::Done();
  Measure(view, outcome);
  TRY(WriteStatus(
      view,
      [&](const Json& previous) {
        return MakeStatus(outcome, world_.operator_namespace, view.policy.generation, previous,
                          base::WallClock::now());
      },
      stop));
  // A wrong policy is not tried again until something changes; everything else after a back-off.
  for (const OperandReport& report : outcome.operands) {
    if (report.verdict != Verdict::kFailed || report.retry == Retry::kWhenChanged) continue;
    if (report.retry == Retry::kLater) return kube::Action::RequeueAfter(kSecretRetry);
    return base::Fail(
        base::Unavailable(report.reason, fmt::format("{}: {}", report.state, report.message)));
  }
  if (!outcome.failures.empty()) {
    return base::Fail(base::Unavailable("ReconcileFailed", base::Join(outcome.failures, "; ")));
  }
  if (rollout_->pending()) return kube::Action::RequeueAfter(kEchoTimeout);
  return kube::Action::Done();
}

PolicyOutcome PolicyController::Pass(const PolicyView& view, const io::StopToken& stop) {
  PolicyOutcome outcome;
  outcome.removals_held = removals_held_();
  const auto facts = GatherFacts(view.policy, stop);
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
  const Context context{.policy = view.policy,
                        .facts = *facts,
                        .images = images_,
                        .operator_namespace = world_.operator_namespace};
  for (const RenderedOperand& rendered : Render(context)) {
    outcome.operands.push_back(rollout_->Run(rendered, stop));
    metrics_.SetOperandSeconds(
        rendered.operand->state,
        std::chrono::duration<double>(outcome.operands.back().duration).count());
  }
  if (const auto removed = rollout_->RemoveUnknownStates(stop); !removed) {
    outcome.failures.push_back(removed.error().message);
  }
  return outcome;
}

base::Result<Facts> PolicyController::GatherFacts(const api::ClusterPolicy& policy,
                                                  const io::StopToken& stop) {
  kube::Client& client = *world_.client;
  const auto own = [&](const std::string& name) {
    return kube::ObjectKey{.namespace_name = world_.operator_namespace, .name = name};
  };
  const FactSource source{
      .driver_toolkit =
          [&] {
            return Transform(ReadIfServed(client, kImageStreams, kDriverToolkitKey, stop),
                             DriverToolkitOf);
          },
      .proxy =
          [&] {
            return Transform(ReadIfServed(client, kProxies, kClusterProxyKey, stop), ProxyOf);
          },
      .config_map =
          [&](const std::string& name) {
            const auto* store = world_.inventory.StoreOf(kube::kConfigMaps);
            return Transform(store->Find(own(name)),
                             [](const auto& object) { return object->keys; });
          },
      .secret =
          [&](const std::string& name) {
            const auto found =
                base::Observed<Json>::From(client.Get(kube::kSecrets, own(name), stop));
            return Transform(found, [](const Json&) { return true; });
          }};
  return CompleteFacts(world_.NodeFacts(), policy, source);
}

base::Status PolicyController::LabelNamespace(const api::ClusterPolicy& policy, const Facts& facts,
                                              const io::StopToken& stop) {
  const std::string version = fmt::format("{}/{}", policy.uid, policy.generation);
  if (labelled_namespace_for_ == version || (!policy.psa_enabled && !facts.openshift())) return {};
  const kube::ObjectKey key{.namespace_name = "", .name = world_.operator_namespace};
  TRY_ASSIGN(const Json current, world_.client->Get(kube::kNamespaces, key, stop));
  const Json labels = MissingNamespaceLabels(policy, facts, current);
  if (!labels.empty()) {
    TRY(world_.client->Patch(kube::kNamespaces, key, kube::PatchType::kMerge,
                             {{"metadata", {{"labels", labels}}}},
                             {.field_manager = std::string(kFieldManager)}, stop));
  }
  labelled_namespace_for_ = version;
  return {};
}

base::Status PolicyController::WriteStatus(const PolicyView& view,
                                           const std::function<Json(const Json& previous)>& make,
                                           const io::StopToken& stop) {
  WrittenStatus& written = written_[view.policy.uid];
  const Json previous = written.version > view.version ? written.status : view.status;
  const Json status = make(previous);
  if (status == previous) return {};
  const auto patched = world_.client->Patch(
      kClusterPolicies, {.namespace_name = "", .name = view.policy.name}, kube::PatchType::kMerge,
      {{"metadata", {{"uid", view.policy.uid}}}, {"status", status}},
      {.field_manager = std::string(kFieldManager), .subresource = "status"}, stop);
  if (!patched) {
    if (patched.error().code == base::Code::kNotFound) return {};
    return base::Fail(
        patched.error().Within("write the status of ClusterPolicy " + view.policy.name));
  }
  TRY_ASSIGN(const PolicyView stored, ReadPolicyView(*patched));
  written = {.status = stored.status, .version = stored.version};
  Tell(view, previous, status);
  return {};
}

void PolicyController::Tell(const PolicyView& view, const Json& before, const Json& after) {
  for (const Transition& transition : TransitionsBetween(before, after)) {
    const std::string message =
        transition.message.empty()
            ? fmt::format("{} is {}", transition.type, transition.is_true ? "True" : "False")
            : fmt::format("{}: {}", transition.type, transition.message);
    const bool waiting = !transition.is_true && transition.reason == "RollingOut";
    base::LogInfo("condition changed", {{"policy", view.policy.name},
                                        {"condition", transition.type},
                                        {"status", transition.is_true ? "True" : "False"},
                                        {"reason", transition.reason},
                                        {"message", transition.message}});
    events_.Record({.about = Reference(view),
                    .type = transition.is_true || waiting ? kube::EventType::kNormal
                                                          : kube::EventType::kWarning,
                    .reason = transition.reason,
                    .message = message});
  }
}

void PolicyController::MeasureDriverToolkit(const api::ClusterPolicy& policy, const Facts& facts) {
  const bool wanted = facts.openshift() && policy.operator_settings.use_driver_toolkit &&
                      !policy.driver.use_precompiled;
  const bool stream = facts.driver_toolkit.image_stream_exists;
  const bool versions = !facts.rhcos_versions.empty();
  const bool covered = std::ranges::all_of(facts.rhcos_versions, [&](const std::string& version) {
    return facts.driver_toolkit.images.contains(version);
  });
  const auto set = [&](std::string_view name, double value) {
    metrics_.Set(fmt::format("gpu_operator_openshift_driver_toolkit_{}", name), value);
  };
  set("enabled", !wanted ? 0 : (stream && versions ? 1 : -1));
  set("nfd_too_old", wanted && facts.gpu_nodes > 0 && !versions ? 1 : 0);
  set("imagestream_missing", wanted && !stream ? 1 : 0);
  set("imagestream_broken", wanted && facts.driver_toolkit.broken ? 1 : 0);
  set("rhcos_tags_missing", wanted && stream && !covered ? 1 : 0);
}

void PolicyController::Measure(const PolicyView& view, const PolicyOutcome& outcome) {
  const PolicyState state = StateOf(outcome);
  const bool unworkable = outcome.operands.empty();
  metrics_.Set("gpu_operator_gpu_nodes_total", static_cast<double>(world_.fleet.gpu_nodes()));
  metrics_.Set("gpu_operator_reconciliation_has_nfd_labels", outcome.nfd_labels ? 1 : 0);
  metrics_.Set("gpu_operator_driver_auto_upgrade_enabled",
               NodePolicyOf(view.policy).driver_auto_upgrade ? 1 : 0);
  metrics_.Set("gpu_operator_reconciliation_status",
               unworkable ? -1 : (state == PolicyState::kReady ? 1 : 0));
  if (state != PolicyState::kReady) {
    metrics_.Increment("gpu_operator_reconciliation_failed_total");
  } else if (outcome.nfd_labels) {
    const auto now = base::WallClock::now().time_since_epoch();
    metrics_.Set("gpu_operator_reconciliation_last_success_ts_seconds",
                 std::chrono::duration<double>(now).count());
  }
}

}  // namespace pitcrew::gpu_operator
