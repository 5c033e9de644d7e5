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
#include "driver_upgrade/wave.h"
#include "kube/projection.h"
#include "operator/metrics/collectors.h"

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
constexpr std::string_view kValidatorApp = "nvidia-operator-validator";
constexpr std::string_view kPolicyPath = "spec.driver.upgradePolicy";

std::string DriverSelector() {
  return fmt::format("{}={}", api::kComponentLabel, api::kDriverComponent);
}

kube::ObjectKey KeyOfNode(const std::string& name) { return {.namespace_name = "", .name = name}; }

UpgradeState StateOf(const desired::Node& node) {
  return api::UpgradeStateNamed(node.labels.Get(api::kUpgradeState));
}

// What the limits look at.
auto ShareInWave(const desired::Node& node) {
  return std::tuple(StateOf(node), node.labels.Is(api::kUpgradeSkip, "true"), node.unschedulable,
                    node.not_ready);
}

// A value on which the upgrade depends cannot be used: nobody knows what is wanted.
bool IsUnclear(const api::ClusterPolicy& policy) {
  return std::ranges::any_of(policy.problems, [](const api::FieldProblem& problem) {
    return problem.path.starts_with(kPolicyPath) || problem.path == "spec.driver" ||
           problem.path.starts_with("spec.driver.enabled") ||
           problem.path.starts_with("spec.sandboxWorkloads");
  });
}

template <class View>
kube::Informer<View> WatchOf(const World& world, const kube::ResourceKind& kind,
                             base::Result<View> (*read)(const Json&), std::string selector) {
  return kube::Informer<View>(
      world.client, kind, kube::ProjectJson<View>(read),
      {.namespace_name = world.operator_namespace, .label_selector = std::move(selector)});
}

}  // namespace

UpgradeController::UpgradeController(World& world, Metrics& metrics, kube::EventRecorder& events,
                                     std::function<void()> stopped_changed,
                                     std::function<void()> synced)
    : world_(world),
      metrics_(metrics),
      events_(events),
      stopped_changed_(std::move(stopped_changed)),
      templates_(std::make_shared<const driver_upgrade::Templates>()),
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
      daemonset_watch_(
          WatchOf(world, kube::kDaemonSets, driver_upgrade::ReadDriverDaemonSet, DriverSelector())),
      revision_watch_(WatchOf(world, driver_upgrade::kControllerRevisions,
                              driver_upgrade::ReadRevision, DriverSelector())),
      driver_pod_watch_(
          WatchOf(world, kube::kPods, driver_upgrade::ReadDriverPod, DriverSelector())),
      validator_pod_watch_(WatchOf(world, kube::kPods, driver_upgrade::ReadValidatorPod,
                                   fmt::format("{}={}", api::kAppLabel, kValidatorApp))) {
  WatchSources();
}

void UpgradeController::WatchSources() {
  controller_.Watch<desired::Node>(
      world_.nodes, [this](const kube::Change<desired::Node>& change, const auto& enqueue) {
        NoteState(change);
        const bool changed = change.before == nullptr || change.now == nullptr;
        if (!changed && *change.before == *change.now) return;
        enqueue(change.key);
        if (changed || ShareInWave(*change.before) != ShareInWave(*change.now)) EnqueueWave();
      });
  controller_.Watch<desired::PolicyView>(
      world_.policies,
      [this](const kube::Change<desired::PolicyView>& change, const auto& enqueue) {
        const auto same = [](const desired::PolicyView& a, const desired::PolicyView& b) {
          return a.policy.driver.upgrade_policy == b.policy.driver.upgrade_policy &&
                 desired::NodePolicyOf(a.policy) == desired::NodePolicyOf(b.policy) &&
                 IsUnclear(a.policy) == IsUnclear(b.policy) && a.deleting == b.deleting;
        };
        if (change.before != nullptr && change.now != nullptr && same(*change.before, *change.now))
          return;
        enqueue(kAllNodes);
      });
  if (world_.gpu_clusters) {
    controller_.Watch<bool>(*world_.gpu_clusters, [](const kube::Change<bool>&,
                                                     const auto& enqueue) { enqueue(kAllNodes); });
  }
  controller_.Watch<driver_upgrade::DriverDaemonSet>(
      daemonset_watch_, [this](const auto&, const auto&) { ReadTemplates(); });
  controller_.Watch<driver_upgrade::Revision>(
      revision_watch_, [this](const auto&, const auto&) { ReadTemplates(); });
  controller_.Watch<driver_upgrade::DriverPod>(
      driver_pod_watch_,
      [this](const kube::Change<driver_upgrade::DriverPod>& change, const auto& enqueue) {
        driver_pods_.Apply(change);
        for (const auto& pod : {change.before, change.now}) {
          if (pod != nullptr && !pod->node.empty()) enqueue(KeyOfNode(pod->node));
        }
        if (change.before == nullptr || change.now == nullptr) EnqueueWave();
      });
  controller_.Watch<driver_upgrade::ValidatorPod>(
      validator_pod_watch_,
      [this](const kube::Change<driver_upgrade::ValidatorPod>& change, const auto& enqueue) {
        validator_pods_.Apply(change);
        for (const auto& pod : {change.before, change.now}) {
          if (pod != nullptr && !pod->node.empty()) enqueue(KeyOfNode(pod->node));
        }
      });
}

void UpgradeController::NoteState(const kube::Change<desired::Node>& change) {
  const std::lock_guard lock(mutex_);
  if (change.now != nullptr && change.now->labels.Has(api::kUpgradeState)) {
    nodes_with_state_.insert(change.key.name);
  } else {
    nodes_with_state_.erase(change.key.name);
  }
}

std::set<std::string> UpgradeController::NodesOfWave() const {
  std::set<std::string> names;
  {
    const std::lock_guard lock(mutex_);
    names = nodes_with_state_;
  }
  for (std::string& name : driver_pods_.Nodes()) names.insert(std::move(name));
  return names;
}

void UpgradeController::EnqueueNode(const std::string& name) {
  controller_.Enqueue(KeyOfNode(name));
}

void UpgradeController::EnqueueWave() { controller_.EnqueueAfter(kWave, kWaveBurst); }

void UpgradeController::ReadTemplates() {
  auto templates = std::make_shared<driver_upgrade::Templates>();
  for (const auto& [key, daemonset] : daemonset_watch_.store().Snapshot()) {
    if (daemonset != nullptr) templates->Add(*daemonset);
  }
  for (const auto& [key, revision] : revision_watch_.store().Snapshot()) {
    if (revision != nullptr) templates->Add(*revision);
  }
  {
    const std::lock_guard lock(mutex_);
    templates_ = std::move(templates);
  }
  for (const std::string& node : driver_pods_.Nodes()) EnqueueNode(node);
}

std::string UpgradeController::stopped() const {
  const std::lock_guard lock(mutex_);
  return stopped_;
}

void UpgradeController::SetStopped(const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    if (stopped_ == why) return;
    stopped_ = why;
  }
  if (!why.empty()) base::LogWarning("driver upgrades are stopped", {{"why", why}});
  stopped_changed_();
}

void UpgradeController::Expose(prom::Exposition& exposition) const {
  ExposeWatch("driver daemonsets", daemonset_watch_.status(), daemonset_watch_.store().size(),
              exposition);
  ExposeWatch("controllerrevisions", revision_watch_.status(), revision_watch_.store().size(),
              exposition);
  ExposeWatch("driver pods", driver_pod_watch_.status(), driver_pod_watch_.store().size(),
              exposition);
  ExposeWatch("validator pods", validator_pod_watch_.status(), validator_pod_watch_.store().size(),
              exposition);
}

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

// --- the wave ---

void UpgradeController::MeasureNothing() {
  for (const char* name : {"in_progress", "done", "failed", "available", "pending"}) {
    metrics_.Set(fmt::format("gpu_operator_nodes_upgrades_{}", name), 0);
  }
}

base::Result<std::string> UpgradeController::CheckSelectors(const api::UpgradePolicy& policy,
                                                            const io::StopToken& stop) {
  const std::string all = policy.wait_pod_selector + "\n" + policy.drain_pod_selector;
  if (all == checked_selectors_) return selector_problem_;
  std::string problem;
  for (const auto& [member, selector] :
       {std::pair("waitForCompletion", policy.wait_pod_selector),
        std::pair("drain", driver_upgrade::DrainSelector(policy))}) {
    // The server's own grammar.
    const auto asked =
        world_.client->Send(kube::ListRequest(kube::kPods, world_.operator_namespace,
                                              {.label_selector = selector, .page_size = 1}),
                            stop);
    if (asked) continue;
    if (asked.error().code != base::Code::kInvalid) return base::Fail(asked.error());
    problem = fmt::format("{}.{}.podSelector: {}", kPolicyPath, member, asked.error().message);
    break;
  }
  checked_selectors_ = all;
  selector_problem_ = problem;
  return problem;
}

base::Result<kube::Action> UpgradeController::ReconcileWave(const io::StopToken& stop) {
  const auto settings = CurrentSettings();
  if (!settings || !settings->enabled) {
    MeasureNothing();
    SetStopped("");
    return kube::Action::Done();
  }
  std::vector<driver_upgrade::Member> members;
  for (const std::string& name : NodesOfWave()) {
    const auto node = world_.nodes.store().Find(KeyOfNode(name));
    if (!node.is_present()) continue;
    members.push_back(driver_upgrade::MemberOf(**node.value()));
    members.back().granted = grants_.Counts(**node.value());
  }
  const driver_upgrade::Wave wave = driver_upgrade::PlanWave(members, settings->policy);
  const auto measure = [&](std::string_view name, int value) {
    metrics_.Set(fmt::format("gpu_operator_nodes_upgrades_{}", name), value);
  };
  measure("in_progress", wave.in_progress);
  measure("done", wave.done);
  measure("failed", wave.failed);
  measure("available", wave.available);
  measure("pending", wave.pending);
  if (wave.pending > 0) {
    TRY_ASSIGN(const std::string problem, CheckSelectors(settings->policy, stop));
    if (!problem.empty()) {
      SetStopped(problem);
      return kube::Action::Done();
    }
  }
  const bool failures = wave.failed > wave.max_failed;
  SetStopped(failures ? wave.held : "");
  if (std::exchange(held_, wave.held) != wave.held && !wave.held.empty()) {
    base::LogInfo("no other driver is upgraded now", {{"why", wave.held}});
  }
  for (const std::string& node : wave.granted) {
    grants_.Give(node);
    EnqueueNode(node);
  }
  return kube::Action::Done();
}

// --- one node ---

base::Result<driver_upgrade::Step> UpgradeController::Decide(const desired::Node& node,
                                                             const Settings& settings) {
  if (!settings.enabled) return driver_upgrade::DecideRelease(node);
  const auto pods = driver_pods_.Of(node.name);
  const driver_upgrade::DriverPod* pod = driver_upgrade::ChoosePod(pods);
  driver_upgrade::NodeFacts facts{.node = node, .pod = pod, .now = base::WallClock::now()};
  if (pod != nullptr) {
    std::shared_ptr<const driver_upgrade::Templates> templates;
    {
      const std::lock_guard lock(mutex_);
      templates = templates_;
    }
    facts.sync = templates->SyncOf(*pod);
    facts.newest_revision = templates->NewestOf(*pod);
    facts.restarts_only = templates->RestartsOnly(*pod);
  }
  facts.granted = grants_.Has(node.name);
  for (const auto& validator : validator_pods_.Of(node.name)) {
    ++facts.validators;
    if (validator->ready) ++facts.validators_ready;
  }
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
    grants_.Forget(name);
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
    if (grants_.Return(name)) EnqueueWave();
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
      if (grants_.Return(name)) EnqueueWave();
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
      grants_.Use(name, version.value_or(0));
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
  const auto pods = driver_pods_.Of(node);
  const driver_upgrade::DriverPod* pod = driver_upgrade::ChoosePod(pods);
  if (pod == nullptr) return {};
  if (!pod->owner_uid.empty()) {
    // The watch of pods may be ahead of that of revisions: a new pod is not deleted for its
    // newness.
    TRY_ASSIGN(const auto listed,
               world_.client->List(driver_upgrade::kControllerRevisions, world_.operator_namespace,
                                   {.label_selector = DriverSelector()}, stop));
    driver_upgrade::Templates templates;
    templates.Add(driver_upgrade::DriverDaemonSet{.uid = pod->owner_uid, .digest = ""});
    for (const Json& object : listed.items) {
      TRY_ASSIGN(const auto revision, driver_upgrade::ReadRevision(object));
      templates.Add(revision);
    }
    if (templates.SyncOf(*pod) != Sync::kOutdated) return {};
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
