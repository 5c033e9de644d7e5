#include "operator/upgrade/upgrade_controller.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "api/labels.h"
#include "api/upgrade_state.h"
#include "base/log.h"
#include "base/strings.h"
#include "desired/node_labels.h"
#include "desired/owned_object.h"

namespace pitcrew::gpu_operator {
namespace {

using api::UpgradeState;
using codec::Json;
using driver_upgrade::Sync;
using driver_upgrade::Work;

// Neither names a node: node names are DNS names.
const kube::ObjectKey kAllNodes{.namespace_name = "", .name = "*"};
const kube::ObjectKey kWave{.namespace_name = "", .name = "*wave"};

constexpr int kUpgradeWorkers = 16;
// Nodes that change together are counted together.
constexpr std::chrono::milliseconds kWaveBurst{50};
// More than the longest way of a node has; what comes behind it is another change.
constexpr int kMostSteps = 32;

constexpr std::string_view kEventReason = "GPUDriverUpgrade";
UpgradeState StateOf(const desired::Node& node) {
  return api::UpgradeStateNamed(node.labels.Get(api::kUpgradeState));
}

// Nobody else reads those: no operand tells of them.
bool IsOfAnnotation(const api::FieldProblem& problem) {
  return problem.path.starts_with("metadata.annotations");
}

// A value on which the upgrade depends cannot be used: nobody knows what is wanted.
bool IsUnclear(const api::ClusterPolicy& policy) {
  return std::ranges::any_of(policy.problems, [](const api::FieldProblem& problem) {
    return problem.path.starts_with(kUpgradePolicyPath) || problem.path == "spec.driver" ||
           problem.path.starts_with("spec.driver.enabled") ||
           problem.path.starts_with("spec.sandboxWorkloads") || IsOfAnnotation(problem);
  });
}

// An annotation that cannot be used, and why; "" when there is none.
std::string UnclearAnnotation(const api::ClusterPolicy& policy) {
  const auto found = std::ranges::find_if(policy.problems, IsOfAnnotation);
  return found == policy.problems.end() ? "" : fmt::format("{}: {}", found->path, found->message);
}

}  // namespace

UpgradeController::UpgradeController(World& world, Metrics& metrics, kube::EventRecorder& events,
                                     std::function<void()> stopped_changed,
                                     std::function<void()> synced)
    : world_(world),
      events_(events),
      controller_(
          {.name = "driver-upgrades", .workers = kUpgradeWorkers, .synced = std::move(synced)},
          [this](const kube::ObjectKey& key, const io::StopToken& stop) {
            return Reconcile(key, stop);
          }),
      work_(
          world.client, [this](const std::string& node) { EnqueueNode(node); },
          [this](const std::string& node, const std::string& why) {
            // The uid by which kubectl finds events of nodes that do not know the Node's own.
            events_.Record({.about = {.api_version = "v1",
                                      .kind = "Node",
                                      .key = KeyOfNode(node),
                                      .uid = node},
                            .type = kube::EventType::kWarning,
                            .reason = std::string(kEventReason),
                            .message = why});
          }),
      pods_(world),
      turns_(world, metrics, pods_, std::move(stopped_changed)) {
  WatchSources();
}

void UpgradeController::WatchSources() {
  controller_.Watch<desired::Node>(
      world_.nodes, [this](const kube::Change<desired::Node>& change, const auto& enqueue) {
        const bool concerns_others = turns_.Note(change);
        if (change.before != nullptr && change.now != nullptr && *change.before == *change.now) {
          return;
        }
        enqueue(change.key);
        if (concerns_others) EnqueueWave();
      });
  controller_.Watch<desired::PolicyView>(
      world_.policies,
      [this](const kube::Change<desired::PolicyView>& change, const auto& enqueue) {
        const auto same = [](const desired::PolicyView& a, const desired::PolicyView& b) {
          return a.policy.driver.upgrade_policy == b.policy.driver.upgrade_policy &&
                 desired::NodePolicyOf(a.policy) == desired::NodePolicyOf(b.policy) &&
                 IsUnclear(a.policy) == IsUnclear(b.policy) &&
                 UnclearAnnotation(a.policy) == UnclearAnnotation(b.policy) &&
                 a.deleting == b.deleting;
        };
        if (change.before != nullptr && change.now != nullptr && same(*change.before, *change.now))
          return;
        enqueue(kAllNodes);
      });
  if (world_.gpu_clusters) {
    controller_.Watch<bool>(*world_.gpu_clusters, [](const kube::Change<bool>&,
                                                     const auto& enqueue) { enqueue(kAllNodes); });
  }
  pods_.Watch(
      controller_,
      [this](const std::string& node) {
        EnqueueNode(node);
        if (watches_canary_) EnqueueWave();
      },
      [this] { EnqueueWave(); });
}

void UpgradeController::EnqueueNode(const std::string& name) {
  controller_.Enqueue(KeyOfNode(name));
}

void UpgradeController::EnqueueWave() { controller_.EnqueueAfter(kWave, kWaveBurst); }

std::optional<UpgradeController::Settings> UpgradeController::CurrentSettings() const {
  const auto view = world_.ActivePolicy();
  // Beside a GPUCluster nothing is done; drivers of NVIDIADriver objects are not ours.
  if (view == nullptr || !world_.GpuClusters().empty() || IsUnclear(view->policy) ||
      view->policy.driver.use_nvidia_driver_crd) {
    return std::nullopt;
  }
  return Settings{.enabled = desired::NodePolicyOf(view->policy).driver_auto_upgrade,
                  .policy = view->policy.driver.upgrade_policy};
}

base::Result<kube::Action> UpgradeController::Reconcile(const kube::ObjectKey& key,
                                                        const io::StopToken& stop) {
  if (key == kWave) return ReconcileWave(stop);
  if (key != kAllNodes) return ReconcileNode(key.name, stop);
  for (const auto& [node, view] : world_.nodes.store().Snapshot()) controller_.Enqueue(node);
  EnqueueWave();
  return kube::Action::Done();
}

base::Result<kube::Action> UpgradeController::ReconcileWave(const io::StopToken& stop) {
  const auto settings = CurrentSettings();
  watches_canary_ = settings && settings->enabled && settings->policy.schedule.canary.nodes > 0;
  if (!settings || !settings->enabled) {
    const auto view = world_.ActivePolicy();
    turns_.GiveNone(settings || view == nullptr ? "" : UnclearAnnotation(view->policy));
    return kube::Action::Done();
  }
  TRY_ASSIGN(const Turns::Given given, turns_.Give(settings->policy, stop));
  for (const std::string& node : given.nodes) EnqueueNode(node);
  return given.look_again ? kube::Action::RequeueAfter(*given.look_again) : kube::Action::Done();
}

// --- one node ---

base::Result<driver_upgrade::Step> UpgradeController::Decide(const desired::Node& node,
                                                             const Settings& settings) {
  if (!settings.enabled) return driver_upgrade::DecideRelease(node);
  const DriverPods::View view = pods_.Of(node.name);
  driver_upgrade::NodeFacts facts{.node = node,
                                  .pod = view.pod.get(),
                                  .sync = view.sync,
                                  .newest_revision = view.newest_revision,
                                  .restarts_only = view.restarts_only,
                                  .granted = turns_.grants().Has(node.name),
                                  .validators = view.validators,
                                  .validators_ready = view.validators_ready,
                                  .now = base::WallClock::now()};
  switch (StateOf(node)) {
    case UpgradeState::kWaitForJobsRequired:
      facts.jobs = work_.JobsOf(node.name, settings.policy.wait_pod_selector);
      break;
    case UpgradeState::kPodDeletionRequired: {
      TRY_ASSIGN(facts.gpu_pods, work_.RemovalOf(node.name, true));
      break;
    }
    case UpgradeState::kDrainRequired: {
      TRY_ASSIGN(facts.drain, work_.RemovalOf(node.name, false));
      break;
    }
    default:
      break;
  }
  return driver_upgrade::DecideStep(facts, settings.policy);
}

base::Result<kube::Action> UpgradeController::ReconcileNode(const std::string& name,
                                                            const io::StopToken& stop) {
  const auto found = world_.nodes.store().Find(KeyOfNode(name));
  if (found.is_unknown()) return base::Fail(*found.error());
  if (found.is_absent()) {
    work_.Keep(name, UpgradeState::kNone);
    turns_.grants().Forget(name);
    return kube::Action::Done();
  }
  const auto settings = CurrentSettings();
  if (!settings) {
    // Nobody says what is wanted: nothing is begun, and pods are not sent away any longer.
    work_.Keep(name, UpgradeState::kNone);
    return kube::Action::Done();
  }
  const desired::Node& node = **found.value();
  TRY_ASSIGN(const driver_upgrade::Step step, Decide(node, *settings));
  if (!step.writes() && step.work == Work::kNone) {
    work_.Keep(name, settings->enabled ? StateOf(node) : UpgradeState::kNone);
    if (turns_.grants().Return(name)) EnqueueWave();
    return step.look_again ? kube::Action::RequeueAfter(*step.look_again) : kube::Action::Done();
  }
  const auto live = world_.client->Get(kube::kNodes, KeyOfNode(name), stop);
  if (live) return Advance(name, *live, *settings, stop);
  if (live.error().code == base::Code::kNotFound) return kube::Action::Done();
  return base::Fail(live.error().Within("upgrade the driver of node " + name));
}

base::Result<kube::Action> UpgradeController::Advance(const std::string& name, Json live,
                                                      const Settings& settings,
                                                      const io::StopToken& stop) {
  for (int steps = 0; steps < kMostSteps && !stop.stopped(); ++steps) {
    TRY_ASSIGN(const desired::Node node, desired::ReadNode(live));
    const UpgradeState state = StateOf(node);
    work_.Keep(name, settings.enabled ? state : UpgradeState::kNone);
    TRY_ASSIGN(const driver_upgrade::Step step, Decide(node, settings));
    if (!step.writes()) {
      if (turns_.grants().Return(name)) EnqueueWave();
      if (!step.waits_for.empty()) {
        base::LogInfo("driver upgrade waits", {{"node", name}, {"for", step.waits_for}});
      }
      Tell(live, step.events);
      TRY(Begin(node, step.work, settings, stop));
      return step.look_again ? kube::Action::RequeueAfter(*step.look_again) : kube::Action::Done();
    }
    TRY_ASSIGN(auto written, Write(live, step, stop));
    if (!written) {
      auto again = world_.client->Get(kube::kNodes, KeyOfNode(name), stop);
      if (!again && again.error().code == base::Code::kNotFound) return kube::Action::Done();
      TRY_ASSIGN(live, std::move(again));
      continue;
    }
    if (state == UpgradeState::kRequired && step.to) {
      const auto version =
          base::ParseUnsigned(codec::FindString(*written, {"metadata", "resourceVersion"}));
      turns_.grants().Use(name, version.value_or(0));
    }
    Tell(live, driver_upgrade::NotesOf(step));
    live = std::move(*written);
  }
  EnqueueNode(name);
  return kube::Action::Done();
}

base::Result<std::optional<Json>> UpgradeController::Write(const Json& live,
                                                           const driver_upgrade::Step& step,
                                                           const io::StopToken& stop) {
  const kube::ObjectKey key = kube::KeyOf(live);
  const Json patch =
      driver_upgrade::PatchOf(step, codec::FindString(live, {"metadata", "resourceVersion"}));
  auto patched = world_.client->Patch(kube::kNodes, key, kube::PatchType::kMerge, patch,
                                      {.field_manager = std::string(desired::kFieldManager)}, stop);
  if (patched) {
    base::LogInfo("driver upgrade", {{"node", key.name}, {"change", codec::ToJsonText(patch)}});
    return std::optional(std::move(*patched));
  }
  if (patched.error().code == base::Code::kConflict ||
      patched.error().code == base::Code::kNotFound) {
    return std::optional<Json>();
  }
  return base::Fail(patched.error().Within("upgrade the driver of node " + key.name));
}

void UpgradeController::Tell(const Json& node, const std::vector<driver_upgrade::Note>& notes) {
  for (const driver_upgrade::Note& note : notes) {
    events_.Record({.about = kube::ReferenceTo(kube::kNodes, node),
                    .type = note.warning ? kube::EventType::kWarning : kube::EventType::kNormal,
                    .reason = std::string(kEventReason),
                    .message = note.message});
  }
}

base::Status UpgradeController::Begin(const desired::Node& node, Work work,
                                      const Settings& settings, const io::StopToken& stop) {
  switch (work) {
    case Work::kNone:
      break;
    case Work::kWatchJobs:
      work_.WatchJobs(node.name, settings.policy.wait_pod_selector);
      break;
    case Work::kRemoveGpuPods:
      work_.Remove(node.name,
                   {.only_gpu = true, .label_selector = "", .how = settings.policy.pod_deletion},
                   stop);
      break;
    case Work::kDrain:
      work_.Remove(node.name,
                   {.only_gpu = false,
                    .label_selector = driver_upgrade::DrainSelector(settings.policy),
                    .how = settings.policy.drain},
                   stop);
      break;
    case Work::kDeleteDriverPod:
      return DeleteDriverPod(node.name, stop);
  }
  return {};
}

base::Status UpgradeController::DeleteDriverPod(const std::string& node,
                                                const io::StopToken& stop) {
  const auto pod = pods_.Of(node).pod;
  if (pod == nullptr) return {};
  if (!pod->owner_uid.empty()) {
    // A new pod is not deleted for its newness.
    TRY_ASSIGN(const bool outdated, pods_.IsOutdated(*pod, stop));
    if (!outdated) return {};
  }
  const kube::ObjectKey key{.namespace_name = world_.operator_namespace, .name = pod->name};
  const auto deleted = world_.client->Delete(kube::kPods, key, {.uid = pod->uid}, stop);
  if (deleted) {
    base::LogInfo("the driver's pod is restarted", {{"node", node}, {"pod", pod->name}});
    return {};
  }
  if (deleted.error().code == base::Code::kNotFound ||
      deleted.error().code == base::Code::kConflict) {
    return {};  // it is gone, and maybe another has its name
  }
  events_.Record(
      {.about = {.api_version = "v1", .kind = "Pod", .key = key, .uid = pod->uid},
       .type = kube::EventType::kWarning,
       .reason = std::string(kEventReason),
       .message = fmt::format("Failed to restart driver pod {}", deleted.error().message)});
  return base::Fail(deleted.error().Within("restart the driver of node " + node));
}

}  // namespace pitcrew::gpu_operator
