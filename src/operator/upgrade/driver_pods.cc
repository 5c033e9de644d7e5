#include "operator/upgrade/driver_pods.h"

#include <fmt/format.h>

#include <utility>

#include "api/labels.h"
#include "api/validator_names.h"
#include "desired/owned_object.h"
#include "driver_upgrade/succession.h"
#include "kube/projection.h"
#include "operator/metrics/collectors.h"

namespace pitcrew::gpu_operator {
namespace {

using codec::Json;

std::string DriverSelector() {
  return fmt::format("{}={}", api::kComponentLabel, api::kDriverComponent);
}

std::string ValidatorSelector() {
  return fmt::format("{}={}", api::kAppLabel, api::kOperatorValidator);
}

template <class View>
kube::Informer<View> WatchOf(const World& world, const kube::ResourceKind& kind,
                             base::Result<View> (*read)(const Json&), const std::string& selector) {
  return kube::Informer<View>(
      world.client, kind, kube::ProjectJson<View>(read),
      {.namespace_name = world.operator_namespace, .label_selector = selector});
}

// Of several the first that stays, by name.
std::shared_ptr<const driver_upgrade::DriverPod> WaitingOf(
    const std::vector<std::shared_ptr<const driver_upgrade::DriverPod>>& pods) {
  for (const auto& pod : pods) {
    if (!pod->deleting && !pod->owner_uid.empty()) return pod;
  }
  return nullptr;
}

}  // namespace

DriverPods::DriverPods(World& world)
    : world_(world),
      daemonset_watch_(
          WatchOf(world, kube::kDaemonSets, driver_upgrade::ReadDriverDaemonSet, DriverSelector())),
      revision_watch_(WatchOf(world, driver_upgrade::kControllerRevisions,
                              driver_upgrade::ReadRevision, DriverSelector())),
      driver_pod_watch_(
          WatchOf(world, kube::kPods, driver_upgrade::ReadDriverPod, DriverSelector())),
      validator_pod_watch_(
          WatchOf(world, kube::kPods, driver_upgrade::ReadValidatorPod, ValidatorSelector())) {}

void DriverPods::Watch(kube::Controller& controller,
                       std::function<void(const std::string&)> changed,
                       std::function<void()> members_changed) {
  changed_ = std::move(changed);
  const auto tell_of = [this](const auto& change, auto... members) {
    for (const auto& pod : {change.before, change.now}) {
      if (pod == nullptr) continue;
      for (const std::string& node : {std::string((*pod).*members)...}) {
        if (!node.empty()) changed_(node);
      }
    }
  };
  controller.Watch<driver_upgrade::DriverDaemonSet>(
      daemonset_watch_, [this](const auto&, const auto&) { ReadTemplates(); });
  controller.Watch<driver_upgrade::Revision>(revision_watch_,
                                             [this](const auto&, const auto&) { ReadTemplates(); });
  controller.Watch<driver_upgrade::DriverPod>(
      driver_pod_watch_, [this, tell_of, members_changed = std::move(members_changed)](
                             const kube::Change<driver_upgrade::DriverPod>& change, const auto&) {
        driver_pods_.Apply(change);
        waiting_pods_.Apply(change);
        tell_of(change, &driver_upgrade::DriverPod::node, &driver_upgrade::DriverPod::waits_for);
        if (change.before == nullptr || change.now == nullptr) members_changed();
      });
  controller.Watch<driver_upgrade::ValidatorPod>(
      validator_pod_watch_,
      [this, tell_of](const kube::Change<driver_upgrade::ValidatorPod>& change, const auto&) {
        validator_pods_.Apply(change);
        tell_of(change, &driver_upgrade::ValidatorPod::node);
      });
}

void DriverPods::ReadTemplates() {
  // DaemonSets and revisions are watched by a thread each.
  templates_.Recompute([this] {
    driver_upgrade::Templates templates;
    for (const auto& [key, daemonset] : daemonset_watch_.store().Snapshot()) {
      if (daemonset != nullptr) templates.Add(*daemonset);
    }
    for (const auto& [key, revision] : revision_watch_.store().Snapshot()) {
      if (revision != nullptr) templates.Add(*revision);
    }
    return templates;
  });
  for (const std::string& node : driver_pods_.Nodes()) changed_(node);
}

DriverPods::View DriverPods::Of(const std::string& node) const {
  View view;
  const auto pods = driver_pods_.Of(node);
  if (const driver_upgrade::DriverPod* chosen = driver_upgrade::ChoosePod(pods)) {
    const auto templates = templates_.Get();
    for (const auto& pod : pods) {
      if (pod.get() == chosen) view.pod = pod;
    }
    view.sync = templates->SyncOf(*chosen);
    view.newest_revision = templates->NewestOf(*chosen);
    view.restarts_only = templates->RestartsOnly(*chosen);
    view.waiting = WaitingOf(waiting_pods_.Of(node));
    view.succession = templates->SuccessionOf(*chosen, view.waiting.get());
    if (view.succession != driver_upgrade::Succession::kNone) {
      view.newest_revision = templates->NewestOf(*view.waiting);
    }
  }
  for (const auto& validator : validator_pods_.Of(node)) view.Count(*validator);
  return view;
}

base::Result<DriverPods::View> DriverPods::WithValidatorsRead(View view, const std::string& node,
                                                              const io::StopToken& stop) const {
  TRY_ASSIGN(const auto listed, world_.client->List(kube::kPods, world_.operator_namespace,
                                                    {.label_selector = ValidatorSelector(),
                                                     .field_selector = "spec.nodeName=" + node},
                                                    stop));
  view.validators = view.validators_ready = 0;
  for (const Json& pod : listed.items) {
    TRY_ASSIGN(const auto validator, driver_upgrade::ReadValidatorPod(pod));
    view.Count(validator);
  }
  return view;
}

base::Result<DriverPods::View> DriverPods::ConfirmedViewOf(const std::string& node,
                                                           const io::StopToken& stop) {
  View view = Of(node);
  if (view.sync != driver_upgrade::Sync::kOutdated) return view;
  const std::string& owner = view.pod->owner_uid;
  {
    const std::lock_guard lock(confirmed_mutex_);
    const auto found = confirmed_.find(owner);
    if (found != confirmed_.end() && found->second == view.newest_revision) return view;
  }
  TRY_ASSIGN(view.newest_revision, ReadNewest(*view.pod, stop));
  if (view.newest_revision.empty() || view.newest_revision == view.pod->revision) {
    view.sync = driver_upgrade::Sync::kUnknown;
    return view;
  }
  const auto templates = templates_.Get();
  const std::lock_guard lock(confirmed_mutex_);
  std::erase_if(confirmed_, [&](const auto& entry) { return !templates->Has(entry.first); });
  confirmed_[owner] = view.newest_revision;
  return view;
}

base::Result<bool> DriverPods::IsOutdated(const driver_upgrade::DriverPod& pod,
                                          const io::StopToken& stop) const {
  TRY_ASSIGN(const std::string newest, ReadNewest(pod, stop));
  return !newest.empty() && newest != pod.revision;
}

base::Result<std::string> DriverPods::ReadNewest(const driver_upgrade::DriverPod& pod,
                                                 const io::StopToken& stop) const {
  const std::string name = templates_.Get()->DaemonSetOf(pod);
  if (name.empty()) return std::string();
  // Revisions first: as long as their DaemonSet stays, nobody takes them away from it.
  TRY_ASSIGN(auto templates, ReadRevisions({.uid = pod.owner_uid}, stop));
  const auto daemonset = world_.client->Get(
      kube::kDaemonSets, {.namespace_name = world_.operator_namespace, .name = name}, stop);
  if (!daemonset && daemonset.error().code != base::Code::kNotFound) {
    return base::Fail(daemonset.error());
  }
  const bool stays = daemonset &&
                     codec::FindString(*daemonset, {"metadata", "uid"}) == pod.owner_uid &&
                     codec::Find(*daemonset, {"metadata", "deletionTimestamp"}) == nullptr;
  if (!stays) return std::string();
  TRY_ASSIGN(const auto read, driver_upgrade::ReadDriverDaemonSet(*daemonset));
  templates.Add(read);
  return templates.NewestOf(pod);
}

base::Result<driver_upgrade::Templates> DriverPods::ReadRevisions(
    const driver_upgrade::DriverDaemonSet& daemonset, const io::StopToken& stop) const {
  TRY_ASSIGN(const auto listed,
             world_.client->List(driver_upgrade::kControllerRevisions, world_.operator_namespace,
                                 {.label_selector = DriverSelector()}, stop));
  driver_upgrade::Templates templates;
  templates.Add(daemonset);
  for (const Json& object : listed.items) {
    TRY_ASSIGN(const auto revision, driver_upgrade::ReadRevision(object));
    templates.Add(revision);
  }
  return templates;
}

base::Result<std::string> DriverPods::HandOver(const std::string& node,
                                               const io::StopToken& stop) const {
  const View view = Of(node);
  if (view.succession != driver_upgrade::Succession::kSame) return std::string();
  const std::string owner = templates_.Get()->DaemonSetOf(*view.waiting);
  const kube::ObjectKey pod_key{.namespace_name = world_.operator_namespace,
                                .name = view.pod->name};
  const auto pod = world_.client->Get(kube::kPods, pod_key, stop);
  const auto daemonset = world_.client->Get(
      kube::kDaemonSets, {.namespace_name = world_.operator_namespace, .name = owner}, stop);
  for (const auto* read : {&pod, &daemonset}) {
    if (*read) continue;
    if (read->error().code == base::Code::kNotFound) return std::string();  // the watches tell
    return base::Fail(read->error());
  }
  TRY_ASSIGN(const auto read_pod, driver_upgrade::ReadDriverPod(*pod));
  TRY_ASSIGN(const auto read_daemonset, driver_upgrade::ReadDriverDaemonSet(*daemonset));
  TRY_ASSIGN(driver_upgrade::Templates templates, ReadRevisions(read_daemonset, stop));
  if (read_pod.deleting || read_pod.uid != view.pod->uid ||
      templates.SuccessionOf(read_pod, view.waiting.get()) != driver_upgrade::Succession::kSame) {
    return std::string();
  }
  // A pod without a revision would count as outdated for good. The watch tells when there is one.
  const std::string newest = templates.NewestOf(*view.waiting);
  if (newest.empty()) return std::string();
  const auto patched =
      world_.client->Patch(kube::kPods, pod_key, kube::PatchType::kMerge,
                           driver_upgrade::HandOverPatch(*pod, *daemonset, newest),
                           {.field_manager = std::string(desired::kFieldManager)}, stop);
  if (patched) return owner;
  if (patched.error().code == base::Code::kConflict ||
      patched.error().code == base::Code::kNotFound) {
    return std::string();  // it has changed: the watch tells
  }
  return base::Fail(patched.error().Within("hand the driver's pod over on node " + node));
}

void DriverPods::Expose(prom::Exposition& exposition) const {
  ExposeWatch("driver daemonsets", daemonset_watch_.status(), daemonset_watch_.store().size(),
              exposition);
  ExposeWatch("controllerrevisions", revision_watch_.status(), revision_watch_.store().size(),
              exposition);
  ExposeWatch("driver pods", driver_pod_watch_.status(), driver_pod_watch_.store().size(),
              exposition);
  ExposeWatch("validator pods", validator_pod_watch_.status(), validator_pod_watch_.store().size(),
              exposition);
}

}  // namespace pitcrew::gpu_operator
