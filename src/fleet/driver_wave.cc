#include "fleet/driver_wave.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "api/labels.h"
#include "api/upgrade_state.h"
#include "api/validator_names.h"
#include "base/strings.h"
#include "desired/node_labels.h"
#include "driver_upgrade/gates.h"
#include "driver_upgrade/image_check.h"
#include "driver_upgrade/pods.h"
#include "driver_upgrade/record.h"
#include "fleet/cluster_looks.h"
#include "fleet/rules.h"

namespace pitcrew::fleet {
namespace {

using driver_upgrade::kDriverContainer;

api::UpgradeState StateOf(const Node& node) {
  return api::UpgradeStateNamed(node.Label(api::kUpgradeState));
}

// Nodes by the state of their upgrade, in the order of the states.
using StateCounts = std::map<api::UpgradeState, int>;
std::vector<std::pair<std::string, int>> InOrder(const StateCounts& counts) {
  std::vector<std::pair<std::string, int>> states;
  for (const api::UpgradeState state : api::UpgradeStates()) {
    if (const auto found = counts.find(state); found != counts.end()) {
      states.emplace_back(api::NameOf(state), found->second);
    }
  }
  return states;
}

bool AllDone(const std::vector<std::pair<std::string, int>>& states) {
  return std::ranges::all_of(states, [](const auto& entry) {
    return entry.first == api::NameOf(api::UpgradeState::kDone);
  });
}

// Nodes that wait and that somebody keeps off.
std::vector<Seen> Skipped(const Cluster& cluster) {
  Seen seen;
  std::size_t count = 0;
  for (const auto& [name, node] : cluster.nodes) {
    if (StateOf(node) != api::UpgradeState::kRequired || node.Label(api::kUpgradeSkip) != "true") {
      continue;
    }
    if (++count == 1) {
      seen.words["advice"] = fmt::format(
          "If that is no longer wanted:\n$ kubectl label node {} {}-", name, api::kUpgradeSkip);
    }
    if (count <= look::kMostNamed) seen.evidence.push_back(SawLabel(node, api::kUpgradeSkip));
  }
  if (count == 0) return {};
  seen.summary = fmt::format("{} {} the driver of before, because somebody keeps the upgrade off",
                             count, count == 1 ? "node has" : "nodes have");
  return {seen};
}

std::string KindOf(const Node& node) {
  return driver_upgrade::KindOfNode([&](std::string_view key) { return node.Label(key); });
}

// The newest version of each driver DaemonSet, by name: the revision of pods that run it, or a word
// that is none, where there is no such pod yet.
std::map<std::string, std::string, std::less<>> VersionsOf(const Cluster& cluster) {
  std::map<std::string, std::string, std::less<>> versions;
  for (const auto& [name, daemonset] : cluster.daemonsets) {
    if (daemonset.images.contains(kDriverContainer)) versions[name] = "of DaemonSet " + name;
  }
  for (const auto& [key, pod] : cluster.pods) {
    const auto version = versions.find(pod.owner);
    if (version == versions.end() || pod.owner_kind != "DaemonSet") continue;
    const DaemonSet& daemonset = cluster.daemonsets.find(pod.owner)->second;
    if (pod.template_generation > 0 && pod.template_generation >= daemonset.template_generation) {
      version->second = pod.revision;
    }
  }
  return versions;
}

void LookAtPods(const Cluster& cluster,
                const std::map<std::string, std::string, std::less<>>& versions,
                driver_upgrade::Member& member) {
  member.pods_ready = true;
  for (const Pod* pod : cluster.PodsOf(member.name)) {
    const auto version = versions.find(pod->owner);
    const bool driver = version != versions.end() && pod->owner_kind == "DaemonSet";
    if (driver) member.version = version->second;
    if (driver && pod->revision != version->second && driver_upgrade::IsWaiting(member)) {
      member.image_check = pod->owner;  // for LookAtImageCheck
    }
    if (driver && pod->revision == version->second) {
      member.has_image = pod->ready;
      const auto missing = std::ranges::find_if(pod->containers, PullFails);
      if (missing != pod->containers.end()) {
        member.missing_image = missing->image;
        member.missing_image_of = missing->name;
      }
    }
    if (driver || pod->app == api::kOperatorValidator) {
      member.pods_ready = member.pods_ready && pod->ready && !pod->deleting;
    }
  }
}

// What a pod that looks at the images of a new driver says, as the operator reads it.
driver_upgrade::ImageCheckPodView ImageCheckOf(const Cluster& cluster, const Pod& pod) {
  driver_upgrade::ImageCheckPodView view{.name = pod.key.name,
                                         .node = pod.node,
                                         .deleting = pod.deleting,
                                         .created = pod.created.value_or(cluster.now),
                                         .phase = pod.phase,
                                         .reason = pod.reason,
                                         .message = pod.message};
  for (const Container& container : pod.containers) {
    view.containers.push_back(
        {.name = container.name,
         .image = container.image,
         .state = container.state,
         .reason = container.reason,
         .message = PullFails(container) ? PullMessage(cluster, pod, container) : container.message,
         .since = container.since});
  }
  // The kubelet's order is its own; the operator tells of the driver's container first.
  std::ranges::stable_partition(
      view.containers, [](const auto& container) { return container.name == kDriverContainer; });
  return view;
}

// Whether the pod looks at what the DaemonSet's pods are to get.
bool LooksAt(const Pod& pod, const DaemonSet& daemonset) {
  return std::ranges::all_of(pod.containers, [&](const Container& container) {
    const auto image = daemonset.images.find(container.name);
    return image != daemonset.images.end() && image->second == container.image;
  });
}

// The pod by which the operator looks at the DaemonSet's images for nodes of that kind; null where
// there is none.
const Pod* ImageCheckFor(const Cluster& cluster, const DaemonSet& daemonset,
                         const std::string& kind) {
  for (const auto& [key, pod] : cluster.pods) {
    if (pod.app != driver_upgrade::kImageCheckApp || pod.deleting || pod.containers.empty() ||
        !LooksAt(pod, daemonset)) {
      continue;
    }
    const auto node = cluster.nodes.find(pod.node);
    if (node != cluster.nodes.end() && KindOf(node->second) == kind) return &pod;
  }
  return nullptr;
}

// Sets what the operator waits for before nodes begin whose driver that DaemonSet gives; it looks
// when it is their turn, and not where it knows already.
void LookAtImageCheck(const Cluster& cluster, const Node& node, driver_upgrade::Member& member) {
  using enum driver_upgrade::ImageVerdict::State;
  const auto daemonset = cluster.daemonsets.find(std::exchange(member.image_check, ""));
  if (daemonset == cluster.daemonsets.end()) return;
  const Pod* pod = ImageCheckFor(cluster, daemonset->second, KindOf(node));
  if (pod == nullptr) return;
  const auto view = ImageCheckOf(cluster, *pod);
  const auto verdict = driver_upgrade::JudgeImage(view, cluster.now);
  if (verdict.state == kGood || verdict.state == kUnknown) return;
  member.image_check = pod->key.name;
  member.image_checked_at = pod->node;
  member.image_trouble = driver_upgrade::TroubleOf(view, verdict);
  member.image_trouble_of = verdict.container;
}

}  // namespace

std::string UpgradePool::Object(const Cluster& cluster) const {
  return driver.empty() ? "ClusterPolicy " + cluster.active_policy()->name
                        : "NVIDIADriver " + driver;
}

std::string UpgradePool::PolicyPath() const {
  return driver.empty() ? "spec.driver.upgradePolicy" : "spec.upgradePolicy";
}

std::string UpgradePool::AdviceOnImage(std::string_view container) const {
  return fmt::format(
      "It goes on by itself when the image can be had and brings what the message "
      "names; or correct {}{}.",
      container == driver_upgrade::kToolkitContainer ? "" : "repository, image and version of ",
      driver_upgrade::ImageChooserOf(container, !driver.empty()));
}

bool UpgradePool::Has(const Node& node) const {
  return driver.empty() || node.Label(api::kDriverOwner) == driver;
}

std::vector<UpgradePool> UpgradePoolsOf(const Cluster& cluster) {
  const auto stopped = [](const auto& object) {
    const Condition* condition = object.Find("DriverUpgradeReady");
    return condition != nullptr && condition->status == "False" ? condition : nullptr;
  };
  const Policy* policy = cluster.active_policy();
  if (policy == nullptr) return {};
  if (!cluster.uses_driver_objects()) {
    return {{.driver = "",
             .policy = &policy->spec.driver.upgrade_policy,
             .enabled = desired::NodePolicyOf(policy->spec).driver_auto_upgrade,
             .stopped = stopped(*policy)}};
  }
  std::vector<UpgradePool> pools;
  for (const auto& [name, driver] : cluster.drivers) {
    if (driver.view->deleting) continue;
    const api::NvidiaDriver& spec = driver.view->driver;
    pools.push_back({.driver = name,
                     .policy = &spec.driver.upgrade_policy,
                     .enabled = spec.driver.upgrade_policy.auto_upgrade &&
                                spec.type != api::kDriverTypeVgpuHost,
                     .stopped = stopped(driver)});
  }
  return pools;
}

std::optional<UpgradePool> UpgraderOf(const Cluster& cluster, const DaemonSet& daemonset) {
  if (!daemonset.images.contains(kDriverContainer)) return std::nullopt;
  const std::string_view owner = Get(daemonset.node_selector, api::kDriverOwner);
  for (const UpgradePool& pool : UpgradePoolsOf(cluster)) {
    if (pool.enabled && pool.driver == owner) return pool;
  }
  return std::nullopt;
}

driver_upgrade::Wave WaveOf(const Cluster& cluster, const UpgradePool& pool) {
  const api::UpgradePolicy& upgrade = *pool.policy;
  const auto versions = VersionsOf(cluster);
  std::vector<driver_upgrade::Member> members;
  for (const auto& [name, node] : cluster.nodes) {
    if (StateOf(node) == api::UpgradeState::kNone || !pool.Has(node)) continue;
    driver_upgrade::Member& member = members.emplace_back(
        driver_upgrade::Member{.name = name,
                               .state = StateOf(node),
                               .skipped = node.Label(api::kUpgradeSkip) == "true",
                               .unschedulable = node.unschedulable,
                               .not_ready = !node.ready.empty() && node.ready != "True"});
    member.domain = std::string(node.Label(upgrade.schedule.order.label));
    LookAtPods(cluster, versions, member);
    LookAtImageCheck(cluster, node, member);
    if (upgrade.schedule.canary.nodes == 0) continue;
    member.record = driver_upgrade::ReadRecord(Get(node.annotations, api::kUpgradeLastAnnotation));
    member.metrics =
        driver_upgrade::ReadMetricsNote(Get(node.annotations, api::kUpgradeMetricsAnnotation));
  }
  return driver_upgrade::PlanWave(members, upgrade, cluster.now);
}

std::optional<UpgradeReport> DescribeUpgrade(const Cluster& cluster) {
  StateCounts counts;
  for (const auto& [name, node] : cluster.nodes) ++counts[StateOf(node)];
  UpgradeReport report;
  report.states = InOrder(counts);
  if (AllDone(report.states)) return std::nullopt;
  for (const UpgradePool& pool : UpgradePoolsOf(cluster)) {
    if (!pool.enabled) continue;
    driver_upgrade::Wave wave = WaveOf(cluster, pool);
    const std::string whose = pool.driver.empty() ? "" : pool.driver + ": ";
    if (!wave.held.empty()) {
      report.held += (report.held.empty() ? "" : "; ") + whose + wave.held;
    }
    for (auto& [why, nodes] : wave.waiting) report.waiting[whose + why] = std::move(nodes);
  }
  return report;
}

std::vector<DriverReport> DescribeDrivers(const Cluster& cluster) {
  std::vector<DriverReport> reports;
  if (!cluster.uses_driver_objects()) return reports;
  for (const auto& [name, driver] : cluster.drivers) {
    DriverReport& report = reports.emplace_back();
    report.name = name;
    report.state = driver.state.empty() ? "not looked at yet" : driver.state;
    report.version = driver.view->driver.driver.image.version;
    StateCounts counts;
    for (const auto& [node_name, node] : cluster.nodes) {
      if (node.Label(api::kDriverOwner) != name) continue;
      ++report.nodes;
      ++counts[StateOf(node)];
    }
    report.upgrade = InOrder(counts);
    if (AllDone(report.upgrade)) report.upgrade.clear();
    const Condition* error = driver.Find("Error");
    if (error != nullptr && error->status == "True") report.message = error->message;
  }
  for (const UpgradePool& pool : UpgradePoolsOf(cluster)) {
    const auto report = std::ranges::find(reports, pool.driver, &DriverReport::name);
    if (report != reports.end() && pool.enabled) report->held = WaveOf(cluster, pool).held;
  }
  return reports;
}

namespace {

std::optional<Seen> HeldIn(const Cluster& cluster, const UpgradePool& pool) {
  const driver_upgrade::Wave wave = WaveOf(cluster, pool);
  // While a node is under way, the others only wait for their turn; and what the schedule keeps
  // is kept because somebody wants it so.
  if (pool.stopped == nullptr && (wave.held.empty() || wave.in_progress > 0 || wave.passes)) {
    return std::nullopt;
  }
  const std::string why = pool.stopped != nullptr ? pool.stopped->message : wave.held;
  const std::string object = pool.Object(cluster);
  Seen seen{
      .summary = fmt::format("the upgrade of the drivers does not go on: {}", why),
      .evidence = {{object, pool.PolicyPath(),
                    fmt::format("maxParallelUpgrades {}, maxUnavailable {}",
                                pool.policy->max_parallel_upgrades, pool.policy->max_unavailable),
                    std::nullopt}},
      .words = {{"advice",
                 (!wave.image_of.empty() ? pool.AdviceOnImage(wave.image_of)
                                         : std::string("It goes on by itself when what the "
                                                       "message names is over: see what "
                                                       "those nodes need, or change the "
                                                       "limits or the schedule.")) +
                     "\n$ kubectl edit " +
                     (wave.image_of == driver_upgrade::kToolkitContainer
                          ? "--namespace openshift imagestream driver-toolkit"
                          : base::ToLower(object.substr(0, object.find(' '))) +
                                object.substr(object.find(' ')))}},
      .since = pool.stopped != nullptr ? pool.stopped->since : Time()};
  for (const auto& [name, node] : cluster.nodes) {
    if (seen.evidence.size() > look::kMostNamed) break;
    if (StateOf(node) == api::UpgradeState::kNone || !pool.Has(node)) continue;
    if (StateOf(node) == api::UpgradeState::kFailed) {
      seen.evidence.push_back(SawLabel(node, api::kUpgradeState));
    } else if (node.unschedulable) {
      seen.evidence.push_back({"Node " + name, "spec.unschedulable", "true", std::nullopt});
    } else if (!node.ready.empty() && node.ready != "True") {
      seen.evidence.push_back({"Node " + name, "condition Ready", node.ready, std::nullopt});
    }
  }
  return seen;
}

}  // namespace

std::vector<Seen> look::UpgradeHeld(const Cluster& cluster) {
  std::vector<Seen> all;
  bool upgrades = false;
  for (const UpgradePool& pool : UpgradePoolsOf(cluster)) {
    if (!pool.enabled) continue;
    upgrades = true;
    if (auto seen = HeldIn(cluster, pool)) all.push_back(*std::move(seen));
  }
  if (!upgrades) return {};
  auto skipped = Skipped(cluster);
  all.insert(all.begin(), skipped.begin(), skipped.end());
  return all;
}

}  // namespace pitcrew::fleet
