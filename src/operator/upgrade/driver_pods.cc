#include "operator/upgrade/driver_pods.h"

#include <fmt/format.h>

#include <utility>

#include "api/labels.h"
#include "kube/projection.h"
#include "operator/metrics/collectors.h"

namespace pitcrew::gpu_operator {
namespace {

using codec::Json;

constexpr std::string_view kValidatorApp = "nvidia-operator-validator";

std::string DriverSelector() {
  return fmt::format("{}={}", api::kComponentLabel, api::kDriverComponent);
}

template <class View>
kube::Informer<View> WatchOf(const World& world, const kube::ResourceKind& kind,
                             base::Result<View> (*read)(const Json&), std::string selector) {
  return kube::Informer<View>(
      world.client, kind, kube::ProjectJson<View>(read),
      {.namespace_name = world.operator_namespace, .label_selector = std::move(selector)});
}

}  // namespace

DriverPods::DriverPods(World& world)
    : world_(world),
      templates_(std::make_shared<const driver_upgrade::Templates>()),
      daemonset_watch_(
          WatchOf(world, kube::kDaemonSets, driver_upgrade::ReadDriverDaemonSet, DriverSelector())),
      revision_watch_(WatchOf(world, driver_upgrade::kControllerRevisions,
                              driver_upgrade::ReadRevision, DriverSelector())),
      driver_pod_watch_(
          WatchOf(world, kube::kPods, driver_upgrade::ReadDriverPod, DriverSelector())),
      validator_pod_watch_(WatchOf(world, kube::kPods, driver_upgrade::ReadValidatorPod,
                                   fmt::format("{}={}", api::kAppLabel, kValidatorApp))) {}

void DriverPods::Watch(kube::Controller& controller,
                       std::function<void(const std::string&)> changed,
                       std::function<void()> members_changed) {
  changed_ = std::move(changed);
  const auto tell_of = [this](const auto& change) {
    for (const auto& pod : {change.before, change.now}) {
      if (pod != nullptr && !pod->node.empty()) changed_(pod->node);
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
        tell_of(change);
        if (change.before == nullptr || change.now == nullptr) members_changed();
      });
  controller.Watch<driver_upgrade::ValidatorPod>(
      validator_pod_watch_,
      [this, tell_of](const kube::Change<driver_upgrade::ValidatorPod>& change, const auto&) {
        validator_pods_.Apply(change);
        tell_of(change);
      });
}

void DriverPods::ReadTemplates() {
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
  for (const std::string& node : driver_pods_.Nodes()) changed_(node);
}

DriverPods::View DriverPods::Of(const std::string& node) const {
  View view;
  const auto pods = driver_pods_.Of(node);
  if (const driver_upgrade::DriverPod* chosen = driver_upgrade::ChoosePod(pods)) {
    std::shared_ptr<const driver_upgrade::Templates> templates;
    {
      const std::lock_guard lock(mutex_);
      templates = templates_;
    }
    for (const auto& pod : pods) {
      if (pod.get() == chosen) view.pod = pod;
    }
    view.sync = templates->SyncOf(*chosen);
    view.newest_revision = templates->NewestOf(*chosen);
    view.restarts_only = templates->RestartsOnly(*chosen);
  }
  for (const auto& validator : validator_pods_.Of(node)) {
    ++view.validators;
    if (validator->ready) ++view.validators_ready;
  }
  return view;
}

base::Result<bool> DriverPods::IsOutdated(const driver_upgrade::DriverPod& pod,
                                          const io::StopToken& stop) const {
  TRY_ASSIGN(const auto listed,
             world_.client->List(driver_upgrade::kControllerRevisions, world_.operator_namespace,
                                 {.label_selector = DriverSelector()}, stop));
  driver_upgrade::Templates templates;
  templates.Add(driver_upgrade::DriverDaemonSet{.uid = pod.owner_uid, .digest = ""});
  for (const Json& object : listed.items) {
    TRY_ASSIGN(const auto revision, driver_upgrade::ReadRevision(object));
    templates.Add(revision);
  }
  return templates.SyncOf(pod) == driver_upgrade::Sync::kOutdated;
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
