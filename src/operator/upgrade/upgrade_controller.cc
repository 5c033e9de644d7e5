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
#include "operator/upgrade/node_event.h"

namespace pitcrew::gpu_operator {
namespace {

using api::UpgradeState;
using codec::Json;
using driver_upgrade::Sync;
using driver_upgrade::Work;

// Neither names a node: node names are DNS names.
const kube::ObjectKey kAllNodes{.namespace_name = "", .name = "*"};
const kube::ObjectKey kWave{.namespace_name = "", .name = "*wave"};

// A node's metrics. Nodes have no namespace.
constexpr std::string_view kMetrics = "*metrics";
kube::ObjectKey KeyOfMetrics(const std::string& node) {
  return {.namespace_name = std::string(kMetrics), .name = node};
}

constexpr int kUpgradeWorkers = 16;
// Nodes that change together are counted together.
constexpr std::chrono::milliseconds kWaveBurst{50};
// More than the longest way of a node has; what comes behind it is another change.
constexpr int kMostSteps = 32;

UpgradeState StateOf(const desired::Node& node) {
  return api::UpgradeStateNamed(node.labels.Get(api::kUpgradeState));
}

}  // namespace

UpgradeController::UpgradeController(World& world, Metrics& metrics, kube::EventRecorder& events,
                                     std::function<void()> told_changed,
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
            TellOfNode(events_, node, kube::EventType::kWarning, why);
          }),
      pods_(world),
      image_checks_(world, events, pods_),
      turns_(world, metrics, pods_, image_checks_, std::move(told_changed)),
      looks_(world, [this](const std::string& node) { controller_.Enqueue(KeyOfMetrics(node)); }) {
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
      world_.policies, [](const kube::Change<desired::PolicyView>& change, const auto& enqueue) {
        if (change.before != nullptr && change.now != nullptr &&
            IsSameForUpgrades(*change.before, *change.now)) {
          return;
        }
        enqueue(kAllNodes);
      });
  if (world_.drivers) {
    controller_.Watch<desired::DriverView>(
        *world_.drivers, [](const kube::Change<desired::DriverView>& change, const auto& enqueue) {
          if (change.before != nullptr && change.now != nullptr &&
              IsSameForUpgrades(*change.before, *change.now)) {
            return;
          }
          enqueue(kAllNodes);
        });
  }
  if (world_.gpu_clusters) {
    controller_.Watch<bool>(*world_.gpu_clusters, [](const kube::Change<bool>&,
                                                     const auto& enqueue) { enqueue(kAllNodes); });
  }
  pods_.Watch(
      controller_,
      [this](const std::string& node) {
        EnqueueNode(node);
        if (wave_sees_pods_) EnqueueWave();
      },
      [this] { EnqueueWave(); });
  image_checks_.Watch(controller_, [this] { EnqueueWave(); });
}

void UpgradeController::EnqueueNode(const std::string& name) {
  controller_.Enqueue(KeyOfNode(name));
}

void UpgradeController::EnqueueWave() { controller_.EnqueueAfter(kWave, kWaveBurst); }

base::Result<kube::Action> UpgradeController::Reconcile(const kube::ObjectKey& key,
                                                        const io::StopToken& stop) {
  if (key == kWave) return ReconcileWave(stop);
  if (key.namespace_name == kMetrics) return ReconcileMetrics(key.name, stop);
  if (key != kAllNodes) return ReconcileNode(key.name, stop);
  for (const auto& [node, view] : world_.nodes.store().Snapshot()) controller_.Enqueue(node);
  EnqueueWave();
  return kube::Action::Done();
}

base::Result<kube::Action> UpgradeController::ReconcileWave(const io::StopToken& stop) {
  const std::vector<UpgradePool> pools = UpgradePoolsOf(world_);
  wave_sees_pods_ = std::ranges::any_of(pools, [](const UpgradePool& pool) {
    return pool.enabled && (pool.policy.schedule.restricts() || pool.policy.image_check);
  });
  TRY_ASSIGN(const Turns::Given given, turns_.Give(pools, stop));
  for (const std::string& node : given.nodes) EnqueueNode(node);
  looks_.Follow(given.followed);
  for (const std::string& node : given.looks) controller_.Enqueue(KeyOfMetrics(node));
  return given.look_again ? kube::Action::RequeueAfter(*given.look_again) : kube::Action::Done();
}

base::Result<kube::Action> UpgradeController::ReconcileMetrics(const std::string& name,
                                                               const io::StopToken& stop) {
  const auto found = world_.nodes.store().Find(KeyOfNode(name));
  if (!found.is_present()) return kube::Action::Done();
  const auto pool = UpgradePoolOf(world_, **found.value());
  if (!pool || !pool->enabled) return kube::Action::Done();
  TRY_ASSIGN(const auto told, looks_.Look(name, pool->policy.schedule.canary, stop));
  if (told) TellOfNode(events_, name, kube::EventType::kWarning, *told);
  return kube::Action::Done();
}

// --- one node ---

base::Result<driver_upgrade::Step> UpgradeController::Decide(const desired::Node& node,
                                                             const UpgradePool& pool,
                                                             const io::StopToken& stop) {
  TRY_ASSIGN(const DriverPods::View view, pods_.ConfirmedViewOf(node.name, stop));
  return DecideBy(view, node, pool);
}

base::Result<driver_upgrade::Step> UpgradeController::DecideForGood(const desired::Node& node,
                                                                    const UpgradePool& pool,
                                                                    const io::StopToken& stop) {
  TRY_ASSIGN(DriverPods::View view, pods_.ConfirmedViewOf(node.name, stop));
  TRY_ASSIGN(driver_upgrade::Step step, DecideBy(view, node, pool));
  if (!pool.enabled || !driver_upgrade::RestsOnValidators(StateOf(node), step)) return step;
  TRY_ASSIGN(view, pods_.WithValidatorsRead(std::move(view), node.name, stop));
  return DecideBy(view, node, pool);
}

base::Result<driver_upgrade::Step> UpgradeController::DecideBy(const DriverPods::View& view,
                                                               const desired::Node& node,
                                                               const UpgradePool& pool) {
  if (!pool.enabled) {
    driver_upgrade::Step release = driver_upgrade::DecideRelease(node);
    const bool hands_over = view.succession == driver_upgrade::Succession::kSame;
    return release.writes() || !hands_over ? release : driver_upgrade::DecideHandOver();
  }
  const bool waits_for_new = StateOf(node) == UpgradeState::kPodRestartRequired &&
                             view.sync == Sync::kInSync && !view.pod->deleting;
  Turns::MissingImage missing;
  if (waits_for_new) {
    missing = {.image = view.pod->missing_image,
               .container = view.pod->missing_image_of,
               .version = view.newest_revision};
  }
  if (turns_.NoteMissingImage(node.name, missing)) EnqueueWave();
  driver_upgrade::NodeFacts facts{.node = node,
                                  .pod = view.pod.get(),
                                  .sync = view.sync,
                                  .newest_revision = view.newest_revision,
                                  .restarts_only = view.restarts_only,
                                  .succession = view.succession,
                                  .granted = turns_.grants().Has(node.name, view.newest_revision),
                                  .validators = view.validators,
                                  .validators_ready = view.validators_ready,
                                  .now = base::WallClock::now()};
  switch (StateOf(node)) {
    case UpgradeState::kWaitForJobsRequired:
      facts.jobs = work_.JobsOf(node.name, pool.policy.wait_pod_selector);
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
  return driver_upgrade::DecideStep(facts, pool.policy);
}

base::Result<kube::Action> UpgradeController::ReconcileNode(const std::string& name,
                                                            const io::StopToken& stop) {
  const auto found = world_.nodes.store().Find(KeyOfNode(name));
  if (found.is_unknown()) return base::Fail(*found.error());
  if (found.is_absent()) {
    work_.Keep(name, UpgradeState::kNone);
    turns_.grants().Forget(name);
    if (turns_.NoteMissingImage(name, {})) EnqueueWave();
    return kube::Action::Done();
  }
  const desired::Node& node = **found.value();
  const auto pool = UpgradePoolOf(world_, node);
  if (!pool) {
    // Nobody says what is wanted: nothing is begun, and pods are not sent away any longer.
    work_.Keep(name, UpgradeState::kNone);
    turns_.grants().Return(name);
    return kube::Action::Done();
  }
  TRY_ASSIGN(const driver_upgrade::Step step, Decide(node, *pool, stop));
  if (!step.writes() && step.work == Work::kNone) {
    work_.Keep(name, pool->enabled ? StateOf(node) : UpgradeState::kNone);
    if (turns_.grants().Return(name)) EnqueueWave();
    return step.look_again ? kube::Action::RequeueAfter(*step.look_again) : kube::Action::Done();
  }
  const auto live = world_.client->Get(kube::kNodes, KeyOfNode(name), stop);
  if (live) return Advance(name, *live, *pool, stop);
  if (live.error().code == base::Code::kNotFound) return kube::Action::Done();
  return base::Fail(live.error().Within("upgrade the driver of node " + name));
}

base::Result<kube::Action> UpgradeController::Advance(const std::string& name, Json live,
                                                      const UpgradePool& pool,
                                                      const io::StopToken& stop) {
  for (int steps = 0; steps < kMostSteps && !stop.stopped(); ++steps) {
    TRY_ASSIGN(const desired::Node node, desired::ReadNode(live));
    const UpgradeState state = StateOf(node);
    work_.Keep(name, pool.enabled ? state : UpgradeState::kNone);
    TRY_ASSIGN(const driver_upgrade::Step step, DecideForGood(node, pool, stop));
    if (!step.writes()) {
      if (turns_.grants().Return(name)) EnqueueWave();
      if (!step.waits_for.empty()) {
        base::LogInfo("driver upgrade waits", {{"node", name}, {"for", step.waits_for}});
      }
      Tell(live, step.events);
      TRY(Begin(node, step.work, pool, stop));
      return step.look_again ? kube::Action::RequeueAfter(*step.look_again) : kube::Action::Done();
    }
    TRY_ASSIGN(auto written, Write(live, step, stop));
    if (!written) {
      auto again = world_.client->Get(kube::kNodes, KeyOfNode(name), stop);
      if (!again && again.error().code == base::Code::kNotFound) return kube::Action::Done();
      TRY_ASSIGN(live, std::move(again));
      continue;
    }
    if (state == UpgradeState::kRequired && step.to == UpgradeState::kDone) {
      if (turns_.grants().Return(name)) EnqueueWave();
    } else if (state == UpgradeState::kRequired && step.to) {
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
                    .reason = std::string(kUpgradeEvent),
                    .message = note.message});
  }
}

base::Status UpgradeController::Begin(const desired::Node& node, Work work, const UpgradePool& pool,
                                      const io::StopToken& stop) {
  switch (work) {
    case Work::kNone:
      break;
    case Work::kWatchJobs:
      work_.WatchJobs(node.name, pool.policy.wait_pod_selector);
      break;
    case Work::kRemoveGpuPods:
      work_.Remove(node.name,
                   {.only_gpu = true, .label_selector = "", .how = pool.policy.pod_deletion}, stop);
      break;
    case Work::kDrain:
      work_.Remove(node.name,
                   {.only_gpu = false,
                    .label_selector = driver_upgrade::DrainSelector(pool.policy),
                    .how = pool.policy.drain},
                   stop);
      break;
    case Work::kDeleteDriverPod:
      return DeleteDriverPod(node.name, stop);
    case Work::kHandOverPod:
      return HandOverPod(node.name, stop);
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
       .reason = std::string(kUpgradeEvent),
       .message = fmt::format("Failed to restart driver pod {}", deleted.error().message)});
  return base::Fail(deleted.error().Within("restart the driver of node " + node));
}

base::Status UpgradeController::HandOverPod(const std::string& node, const io::StopToken& stop) {
  TRY_ASSIGN(const auto handed_over, pods_.HandOver(node, stop));
  if (handed_over.empty()) return {};
  base::LogInfo("the driver's pod has another owner", {{"node", node}, {"daemonset", handed_over}});
  TellOfNode(
      events_, node, kube::EventType::kNormal,
      fmt::format("The driver goes on under DaemonSet {}, which would run the same", handed_over));
  return {};
}

}  // namespace pitcrew::gpu_operator
