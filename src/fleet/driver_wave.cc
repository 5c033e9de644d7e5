#include "fleet/driver_wave.h"

#include <fmt/format.h>

#include <map>
#include <string>
#include <string_view>

#include "api/labels.h"
#include "api/upgrade_state.h"
#include "base/strings.h"
#include "desired/node_labels.h"
#include "driver_upgrade/record.h"
#include "fleet/cluster_looks.h"

namespace pitcrew::fleet {
namespace {

constexpr std::string_view kDriverContainer = "nvidia-driver-ctr";
constexpr std::string_view kValidatorApp = "nvidia-operator-validator";

api::UpgradeState StateOf(const Node& node) {
  return api::UpgradeStateNamed(node.Label(api::kUpgradeState));
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
    if (driver || pod->app == kValidatorApp) {
      member.pods_ready = member.pods_ready && pod->ready && !pod->deleting;
    }
  }
}

}  // namespace

bool UpgradesDrivers(const Cluster& cluster) {
  const Policy* policy = cluster.active_policy();
  return policy != nullptr && desired::NodePolicyOf(policy->spec).driver_auto_upgrade;
}

driver_upgrade::Wave WaveOf(const Cluster& cluster) {
  const Policy* policy = cluster.active_policy();
  const api::UpgradePolicy upgrade =
      policy == nullptr ? api::UpgradePolicy{} : policy->spec.driver.upgrade_policy;
  const auto versions = VersionsOf(cluster);
  std::vector<driver_upgrade::Member> members;
  for (const auto& [name, node] : cluster.nodes) {
    if (StateOf(node) == api::UpgradeState::kNone) continue;
    driver_upgrade::Member& member = members.emplace_back(
        driver_upgrade::Member{.name = name,
                               .state = StateOf(node),
                               .skipped = node.Label(api::kUpgradeSkip) == "true",
                               .unschedulable = node.unschedulable,
                               .not_ready = !node.ready.empty() && node.ready != "True"});
    member.domain = std::string(node.Label(upgrade.schedule.order.label));
    if (upgrade.schedule.canary.nodes == 0) continue;
    member.record = driver_upgrade::ReadRecord(Get(node.annotations, api::kUpgradeLastAnnotation));
    LookAtPods(cluster, versions, member);
  }
  return driver_upgrade::PlanWave(members, upgrade, cluster.now);
}

std::optional<UpgradeReport> DescribeUpgrade(const Cluster& cluster) {
  std::map<api::UpgradeState, int> counts;
  for (const auto& [name, node] : cluster.nodes) ++counts[StateOf(node)];
  UpgradeReport report;
  bool all_done = true;
  for (const api::UpgradeState state : api::UpgradeStates()) {
    if (!counts.contains(state)) continue;
    report.states.emplace_back(api::NameOf(state), counts[state]);
    all_done = all_done && state == api::UpgradeState::kDone;
  }
  if (all_done) return std::nullopt;
  if (UpgradesDrivers(cluster)) {
    driver_upgrade::Wave wave = WaveOf(cluster);
    report.held = std::move(wave.held);
    report.waiting = std::move(wave.waiting);
  }
  return report;
}

std::vector<Seen> look::UpgradeHeld(const Cluster& cluster) {
  if (!UpgradesDrivers(cluster)) return {};
  std::vector<Seen> all = Skipped(cluster);
  const Policy* policy = cluster.active_policy();
  const Condition* stopped = policy->Find("DriverUpgradeReady");
  const driver_upgrade::Wave wave = WaveOf(cluster);
  const bool told = stopped != nullptr && stopped->status == "False";
  // While a node is under way, the others only wait for their turn; and what the schedule keeps
  // is kept because somebody wants it so.
  if (!told && (wave.held.empty() || wave.in_progress > 0 || wave.by_schedule)) return all;
  const std::string why = told ? stopped->message : wave.held;
  Seen seen{.summary = fmt::format("the upgrade of the drivers does not go on: {}", why),
            .evidence = {{"ClusterPolicy " + policy->name, "spec.driver.upgradePolicy",
                          fmt::format("maxParallelUpgrades {}, maxUnavailable {}",
                                      policy->spec.driver.upgrade_policy.max_parallel_upgrades,
                                      policy->spec.driver.upgrade_policy.max_unavailable),
                          std::nullopt}},
            .words = {{"advice",
                       "It goes on by itself when what the message names is over: see what those "
                       "nodes need, or change the limits or the schedule.\n"
                       "$ kubectl edit clusterpolicy " +
                           policy->name}},
            .since = told ? stopped->since : Time()};
  for (const auto& [name, node] : cluster.nodes) {
    if (seen.evidence.size() > look::kMostNamed) break;
    if (StateOf(node) == api::UpgradeState::kNone) continue;
    if (StateOf(node) == api::UpgradeState::kFailed) {
      seen.evidence.push_back(SawLabel(node, api::kUpgradeState));
    } else if (node.unschedulable) {
      seen.evidence.push_back({"Node " + name, "spec.unschedulable", "true", std::nullopt});
    } else if (!node.ready.empty() && node.ready != "True") {
      seen.evidence.push_back({"Node " + name, "condition Ready", node.ready, std::nullopt});
    }
  }
  all.push_back(std::move(seen));
  return all;
}

}  // namespace pitcrew::fleet
