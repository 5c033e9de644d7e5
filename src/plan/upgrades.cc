#include "plan/upgrades.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "api/labels.h"
#include "base/strings.h"
#include "desired/removal.h"
#include "driver_upgrade/pods.h"
#include "driver_upgrade/record.h"
#include "driver_upgrade/succession.h"
#include "driver_upgrade/wave.h"

namespace pitcrew::plan {
namespace {

using codec::Json;

// A driver's DaemonSet, as it stands or as it would.
struct Template {
  driver_upgrade::DriverDaemonSet daemonset;
  const Json* node_selector = nullptr;  // borrowed
  bool changed = false;                 // of one that would stand: the template is another one
};

Template ReadTemplate(const Json& daemonset) {
  Template read;
  if (auto fields = driver_upgrade::ReadDriverDaemonSet(daemonset)) {
    read.daemonset = *std::move(fields);
  }
  read.node_selector = codec::Find(daemonset, {"spec", "template", "spec", "nodeSelector"});
  return read;
}

const Template* FindFor(const std::vector<Template>& templates, const Json* labels) {
  for (const Template& one : templates) {
    const auto has = [&](const auto& entry) {
      const Json* label = labels == nullptr ? nullptr : codec::Find(*labels, {entry.key()});
      return label != nullptr && *label == entry.value();
    };
    bool all = one.node_selector != nullptr;
    if (all) {
      for (const auto& entry : one.node_selector->items()) all = all && has(entry);
    }
    if (all) return &one;
  }
  return nullptr;
}

// The nodes of one upgrade policy.
struct Pool {
  DriverUpgrade upgrade;
  std::vector<driver_upgrade::Member> members;
  std::vector<std::chrono::seconds> durations;  // of the last upgrades
};

template <class Number>
std::string Count(Number count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string TimeText(std::chrono::seconds time) {
  const auto seconds = time.count();
  if (seconds < 120) return fmt::format("{} s", seconds);
  if (seconds < 7200) return fmt::format("{} min", (seconds + 59) / 60);
  return fmt::format("{} h", (seconds + 3599) / 3600);
}

// How long `nodes` of them take, `at_once` at a time.
std::string HowLong(Pool& pool, int nodes, int at_once) {
  if (pool.durations.empty()) {
    return "how long that takes is not known: no node has completed an upgrade";
  }
  const auto middle = pool.durations.begin() + static_cast<long>(pool.durations.size() / 2);
  std::ranges::nth_element(pool.durations, middle);
  const int rounds = (nodes + at_once - 1) / at_once;
  return fmt::format("by the last upgrades ({} a node, the median of {}) that takes about {}",
                     TimeText(*middle), pool.durations.size(), TimeText(*middle * rounds));
}

// How many at a time, and how long that takes.
void SetPace(Pool& pool) {
  DriverUpgrade& upgrade = pool.upgrade;
  api::UpgradePolicy limits = upgrade.policy;
  limits.schedule = {};
  limits.image_check = false;  // cordoned nodes take no place of the limits
  const driver_upgrade::Wave wave = driver_upgrade::PlanWave(pool.members, limits, {});
  const int at_once = static_cast<int>(wave.granted.size());
  if (at_once == 0) {
    upgrade.at_once = "none may begin: " + wave.held;
    return;
  }
  upgrade.at_once =
      fmt::format("{} at a time (maxParallelUpgrades {}, maxUnavailable {}){}", at_once,
                  upgrade.policy.max_parallel_upgrades, upgrade.policy.max_unavailable,
                  upgrade.policy.schedule.restricts() ? ", as the schedule allows" : "");
  const int changed =
      upgrade.Count(DriverChange::kUpgraded) + upgrade.Count(DriverChange::kRestarted);
  upgrade.how_long = HowLong(pool, changed, at_once);
}

// What becomes of the driver of one node; none: nothing.
std::optional<DriverChange> ChangeOf(const Template* before, const Template& after) {
  if (before == nullptr) return std::nullopt;  // it has had none
  const bool same_daemonset = before->daemonset.name == after.daemonset.name;
  if (same_daemonset && !after.changed) return std::nullopt;
  const bool same_driver =
      same_daemonset ? driver_upgrade::KeepsDriver(before->daemonset.digest, after.daemonset)
                     : before->daemonset.configuration == after.daemonset.configuration;
  if (!same_driver) return DriverChange::kUpgraded;
  return same_daemonset ? DriverChange::kRestarted : DriverChange::kHandedOver;
}

struct Templates {
  std::vector<Template> before;
  std::vector<Template> after;
};

Templates ReadTemplates(const snapshot::Snapshot& snapshot, const std::vector<Item>& items,
                        const std::string& operator_namespace) {
  Templates templates;
  for (const auto& [key, object] : snapshot.All(kube::kDaemonSets)) {
    if (key.namespace_name == operator_namespace && desired::IsDriverDaemonSet(object)) {
      templates.before.push_back(ReadTemplate(object));
    }
  }
  for (const Item& item : items) {
    if (item.action == Action::kDelete || !desired::IsDriverDaemonSet(item.object)) continue;
    Template& wanted = templates.after.emplace_back(ReadTemplate(item.object));
    wanted.changed = std::ranges::any_of(item.changes, [](const FieldChange& change) {
      return change.path.starts_with("spec.template");
    });
  }
  return templates;
}

// To the pool of the driver that it would have, if it would have one.
void AddNode(const PlannedNode& node, const Templates& templates, bool by_object,
             std::map<std::string, Pool>& pools) {
  const Json planned = NodeAfter(*node.live, node.decision.labels, node.decision.annotations);
  const Json* labels = codec::Find(planned, {"metadata", "labels"});
  const Template* wanted = FindFor(templates.after, labels);
  if (wanted == nullptr) return;
  Pool& pool = pools[by_object ? labels->value(std::string(api::kDriverOwner), "") : std::string()];
  ++pool.upgrade.nodes_with_driver;
  const auto change =
      ChangeOf(FindFor(templates.before, codec::Find(*node.live, {"metadata", "labels"})), *wanted);
  const auto read = desired::ReadNode(*node.live);
  if (!read) return;
  auto& member = pool.members.emplace_back(driver_upgrade::MemberOf(*read));
  member.state = api::UpgradeState::kRequired;
  if (change) {
    pool.upgrade.nodes.push_back(
        {.node = member.name, .change = *change, .skipped = member.skipped});
  }
  const auto& notes = read->UpgradeNotes();
  const auto last = notes.find(api::kUpgradeLastAnnotation);
  if (last == notes.end()) return;
  const auto record = driver_upgrade::ReadRecord(last->second);
  if (record && record->duration) pool.durations.push_back(*record->duration);
}

// False where there is no NVIDIADriver of that name.
bool SetPolicyOfObject(const WantedDrivers& drivers, const std::string& name,
                       DriverUpgrade& upgrade) {
  const auto view =
      std::ranges::find(drivers.views, name, [](const auto& one) { return one->driver.name; });
  if (view == drivers.views.end()) return false;
  upgrade.whose = "NVIDIADriver " + name;
  upgrade.policy = (*view)->driver.driver.upgrade_policy;
  upgrade.automatic = upgrade.policy.auto_upgrade;
  return true;
}

std::size_t PodsIn(const std::vector<NodeUpgrade>& nodes,
                   std::vector<std::string> NodeUpgrade::* pods) {
  std::size_t count = 0;
  for (const NodeUpgrade& node : nodes) count += (node.*pods).size();
  return count;
}

std::size_t NodesWith(const std::vector<NodeUpgrade>& nodes,
                      std::vector<std::string> NodeUpgrade::* pods) {
  return static_cast<std::size_t>(
      std::ranges::count_if(nodes, [&](const NodeUpgrade& node) { return !(node.*pods).empty(); }));
}

std::string OnNodes(const std::vector<NodeUpgrade>& nodes,
                    std::vector<std::string> NodeUpgrade::* pods) {
  return fmt::format("{} on {}", Count(PodsIn(nodes, pods), "pod"),
                     Count(NodesWith(nodes, pods), "node"));
}

// What disruption budgets say about the pods that leave; "" where none is in the way.
std::string BudgetsText(const DriverUpgrade& upgrade) {
  if (PodsIn(upgrade.nodes, &NodeUpgrade::evicted) == 0) return "";
  if (!upgrade.budgets_unknown.empty()) {
    return "which of these pods disruption budgets would keep is not known: " +
           upgrade.budgets_unknown;
  }
  const auto first = std::ranges::find_if(
      upgrade.nodes, [](const NodeUpgrade& node) { return !node.kept.empty(); });
  if (first == upgrade.nodes.end()) return "";
  return fmt::format("disruption budgets would keep {} of these pods ({}: {})",
                     PodsIn(upgrade.nodes, &NodeUpgrade::kept), first->node,
                     base::Join(first->kept, "; "));
}

// Whether somebody looks before any pod leaves whether the new driver can be had.
std::string_view LookText(const DriverUpgrade& upgrade) {
  return upgrade.policy.image_check
             ? "before any pod leaves, one node of each kernel, system and architecture shows that "
               "the images can be had (not with upgradePolicy.imageCheck: false)"
             : "nobody looks first whether the images can be had: upgradePolicy.imageCheck, or the "
               "annotation that goes before it, is false";
}

}  // namespace

std::string_view ToString(DriverChange change) {
  switch (change) {
    case DriverChange::kUpgraded:
      return "upgrade";
    case DriverChange::kRestarted:
      return "restart";
    case DriverChange::kHandedOver:
      return "handOver";
  }
  return "";
}

int DriverUpgrade::Count(DriverChange change) const {
  return static_cast<int>(std::ranges::count(nodes, change, &NodeUpgrade::change));
}

std::string PodsText(const DriverUpgrade& upgrade) {
  if (!upgrade.evicts() || !upgrade.pods_unknown.empty()) return "";
  std::vector<std::string> parts{"evicts " + OnNodes(upgrade.nodes, &NodeUpgrade::evicted)};
  if (const auto drained = std::ranges::count(upgrade.nodes, true, &NodeUpgrade::drained);
      drained > 0) {
    parts.push_back(fmt::format("{} of these nodes would be drained", drained));
  }
  if (NodesWith(upgrade.nodes, &NodeUpgrade::waits_for) > 0) {
    parts.push_back(
        fmt::format("waits for {} to end", OnNodes(upgrade.nodes, &NodeUpgrade::waits_for)));
  }
  if (const std::string budgets = BudgetsText(upgrade); !budgets.empty()) parts.push_back(budgets);
  const auto failing = std::ranges::find(upgrade.nodes, true, &NodeUpgrade::fails);
  if (failing != upgrade.nodes.end()) {
    const auto& why = failing->drain_refused.empty() ? failing->refused : failing->drain_refused;
    parts.push_back(
        fmt::format("fails on {} ({}: {})",
                    Count(std::ranges::count(upgrade.nodes, true, &NodeUpgrade::fails), "node"),
                    failing->node, base::Join(why, "; ")));
  }
  return base::Join(parts, "; ");
}

std::string NoteOf(const DriverUpgrade& upgrade) {
  std::vector<std::string> parts;
  const int handed_over = upgrade.Count(DriverChange::kHandedOver);
  const int upgraded = upgrade.Count(DriverChange::kUpgraded);
  const int restarted = upgrade.Count(DriverChange::kRestarted);
  if (handed_over > 0) {
    parts.push_back(
        fmt::format("on {} the driver changes hands and stays the same: its pod goes on",
                    Count(handed_over, "node")));
  }
  const std::string of_all = "of " + Count(upgrade.nodes_with_driver, "node");
  if (upgraded > 0)
    parts.push_back(fmt::format("{} {} would get another driver", upgraded, of_all));
  if (restarted > 0) {
    parts.push_back(fmt::format(
        "on {} {} the driver's pod would be started again, and no pod evicted", restarted, of_all));
  }
  if (upgraded + restarted > 0 && !upgrade.automatic) {
    parts.emplace_back(
        "upgradePolicy.autoUpgrade is off: each changes when its driver pod is deleted");
  } else if (upgraded + restarted > 0) {
    parts.push_back(upgrade.at_once);
    if (upgraded > 0) {
      parts.emplace_back(LookText(upgrade));
      parts.emplace_back(
          upgrade.policy.drain_enabled
              ? "each is cordoned, and its pods with GPUs are evicted or, where they "
                "do not go, the node is drained"
              : "each is cordoned, and its pods with GPUs are evicted");
      parts.push_back(upgrade.pods_unknown.empty()
                          ? PodsText(upgrade)
                          : "which pods these are is not known: " + upgrade.pods_unknown);
    }
    if (!upgrade.how_long.empty()) parts.push_back(upgrade.how_long);
  }
  return upgrade.whose + ": " + base::Join(parts, "; ");
}

std::vector<DriverUpgrade> DriverUpgradesOf(const snapshot::Snapshot& snapshot,
                                            const api::ClusterPolicy& policy,
                                            const WantedDrivers& drivers,
                                            const PlannedCluster& cluster,
                                            const std::vector<Item>& items,
                                            const std::string& operator_namespace) {
  const Templates templates = ReadTemplates(snapshot, items, operator_namespace);
  const bool by_object = policy.driver.use_nvidia_driver_crd;
  std::map<std::string, Pool> pools;  // by driver
  for (const PlannedNode& node : cluster.nodes) AddNode(node, templates, by_object, pools);
  std::vector<DriverUpgrade> upgrades;
  for (auto& [name, pool] : pools) {
    DriverUpgrade& upgrade = pool.upgrade;
    if (upgrade.nodes.empty()) continue;
    if (by_object) {
      if (!SetPolicyOfObject(drivers, name, upgrade)) continue;
    } else {
      upgrade.whose = "driver";
      upgrade.policy = policy.driver.upgrade_policy;
      upgrade.automatic = desired::NodePolicyOf(policy).driver_auto_upgrade;
    }
    SetPace(pool);
    upgrades.push_back(std::move(upgrade));
  }
  return upgrades;
}

}  // namespace pitcrew::plan
