#include "fleet/driver_wave.h"

#include <fmt/format.h>

#include <map>

#include "api/labels.h"
#include "api/upgrade_state.h"
#include "base/strings.h"
#include "desired/node_labels.h"
#include "fleet/cluster_looks.h"

namespace pitcrew::fleet {
namespace {

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

}  // namespace

bool UpgradesDrivers(const Cluster& cluster) {
  const Policy* policy = cluster.active_policy();
  return policy != nullptr && desired::NodePolicyOf(policy->spec).driver_auto_upgrade;
}

driver_upgrade::Wave WaveOf(const Cluster& cluster) {
  std::vector<driver_upgrade::Member> members;
  for (const auto& [name, node] : cluster.nodes) {
    if (StateOf(node) == api::UpgradeState::kNone) continue;
    members.push_back({.name = name,
                       .state = StateOf(node),
                       .skipped = node.Label(api::kUpgradeSkip) == "true",
                       .unschedulable = node.unschedulable,
                       .not_ready = !node.ready.empty() && node.ready != "True"});
  }
  const Policy* policy = cluster.active_policy();
  return driver_upgrade::PlanWave(
      members, policy == nullptr ? api::UpgradePolicy{} : policy->spec.driver.upgrade_policy);
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
  if (UpgradesDrivers(cluster)) report.held = WaveOf(cluster).held;
  return report;
}

std::vector<Seen> look::UpgradeHeld(const Cluster& cluster) {
  if (!UpgradesDrivers(cluster)) return {};
  std::vector<Seen> all = Skipped(cluster);
  const Policy* policy = cluster.active_policy();
  const Condition* stopped = policy->Find("DriverUpgradeReady");
  const driver_upgrade::Wave wave = WaveOf(cluster);
  const bool told = stopped != nullptr && stopped->status == "False";
  // While a node is under way, the others only wait for their turn.
  if (!told && (wave.held.empty() || wave.in_progress > 0)) return all;
  const std::string why = told ? stopped->message : wave.held;
  Seen seen{.summary = fmt::format("the upgrade of the drivers does not go on: {}", why),
            .evidence = {{"ClusterPolicy " + policy->name, "spec.driver.upgradePolicy",
                          fmt::format("maxParallelUpgrades {}, maxUnavailable {}",
                                      policy->spec.driver.upgrade_policy.max_parallel_upgrades,
                                      policy->spec.driver.upgrade_policy.max_unavailable),
                          std::nullopt}},
            .words = {{"advice",
                       "It goes on by itself when fewer nodes have failed or are unavailable: see "
                       "what the others need, or change the limits.\n"
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
