#include "plan/upgrades.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "api/labels.h"
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

bool IsDriver(const Json& object) {
  return codec::FindString(object, {"kind"}) == "DaemonSet" &&
         codec::FindString(object, {"metadata", "labels", api::kComponentLabel}) ==
             api::kDriverComponent;
}

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
      return labels != nullptr && labels->value(entry.key(), "") == entry.value();
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
  int nodes = 0;      // with a driver
  int upgraded = 0;   // another driver
  int restarted = 0;  // the same driver in another pod template
  int handed_over = 0;
  std::vector<driver_upgrade::Member> members;
  std::vector<std::chrono::seconds> durations;  // of the last upgrades
};

std::string Count(int count, std::string_view what) {
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

std::string NoteOf(const std::string& whose, Pool& pool, const api::UpgradePolicy& policy,
                   bool enabled) {
  std::vector<std::string> parts;
  if (pool.handed_over > 0) {
    parts.push_back(
        fmt::format("on {} the driver changes hands and stays the same: its pod goes on",
                    Count(pool.handed_over, "node")));
  }
  const int changed = pool.upgraded + pool.restarted;
  if (pool.upgraded > 0) {
    parts.push_back(
        fmt::format("{} of {} would get another driver", pool.upgraded, Count(pool.nodes, "node")));
  }
  if (pool.restarted > 0) {
    parts.push_back(
        fmt::format("on {} of {} the driver's pod would be started again, and no pod evicted",
                    pool.restarted, Count(pool.nodes, "node")));
  }
  if (changed > 0 && !enabled) {
    parts.emplace_back(
        "upgradePolicy.autoUpgrade is off: each changes when its driver pod is deleted");
  } else if (changed > 0) {
    api::UpgradePolicy limits = policy;
    limits.schedule = {};
    const driver_upgrade::Wave wave = driver_upgrade::PlanWave(pool.members, limits, {});
    const int at_once = static_cast<int>(wave.granted.size());
    if (at_once == 0) {
      parts.push_back("none may begin: " + wave.held);
    } else {
      parts.push_back(fmt::format("{} at a time (maxParallelUpgrades {}, maxUnavailable {}){}",
                                  at_once, policy.max_parallel_upgrades, policy.max_unavailable,
                                  policy.schedule.restricts() ? ", as the schedule allows" : ""));
      if (pool.upgraded > 0) {
        parts.push_back(policy.drain_enabled
                            ? "each is cordoned, and its pods with GPUs are evicted or, where "
                              "they do not go, the node is drained"
                            : "each is cordoned, and its pods with GPUs are evicted");
      }
      parts.push_back(HowLong(pool, changed, at_once));
    }
  }
  std::string text = whose + ": ";
  for (std::size_t i = 0; i < parts.size(); ++i) text += (i == 0 ? "" : "; ") + parts[i];
  return text;
}

// What becomes of the driver of one node.
void CountNode(const Template* before, const Template& after, Pool& pool) {
  ++pool.nodes;
  if (before == nullptr) return;  // it has had none
  const bool same_daemonset = before->daemonset.name == after.daemonset.name;
  if (same_daemonset && !after.changed) return;
  const bool same_driver =
      same_daemonset
          ? !after.daemonset.digest.empty() && before->daemonset.digest == after.daemonset.digest
          : before->daemonset.configuration == after.daemonset.configuration;
  if (!same_daemonset && same_driver) {
    ++pool.handed_over;
  } else if (same_driver) {
    ++pool.restarted;
  } else {
    ++pool.upgraded;
  }
}

}  // namespace

std::vector<std::string> UpgradeNotesOf(const snapshot::Snapshot& snapshot,
                                        const api::ClusterPolicy& policy,
                                        const WantedDrivers& drivers, const PlannedCluster& cluster,
                                        const std::vector<Item>& items,
                                        const std::string& operator_namespace) {
  std::vector<Template> before;
  for (const auto& [key, object] : snapshot.All(kube::kDaemonSets)) {
    if (key.namespace_name == operator_namespace && IsDriver(object)) {
      before.push_back(ReadTemplate(object));
    }
  }
  std::vector<Template> after;
  for (const Item& item : items) {
    if (item.action == Action::kDelete || !IsDriver(item.object)) continue;
    after.push_back(ReadTemplate(item.object));
    after.back().changed = std::ranges::any_of(item.changes, [](const FieldChange& change) {
      return change.path.starts_with("spec.template");
    });
  }
  const bool by_object = policy.driver.use_nvidia_driver_crd;
  std::map<std::string, Pool> pools;  // by driver
  for (const PlannedNode& node : cluster.nodes) {
    const Json planned = NodeAfter(*node.live, node.decision.labels, node.decision.annotations);
    const Json* labels = codec::Find(planned, {"metadata", "labels"});
    const Template* wanted = FindFor(after, labels);
    if (wanted == nullptr) continue;
    Pool& pool =
        pools[by_object ? labels->value(std::string(api::kDriverOwner), "") : std::string()];
    CountNode(FindFor(before, codec::Find(*node.live, {"metadata", "labels"})), *wanted, pool);
    const auto read = desired::ReadNode(*node.live);
    if (!read) continue;
    auto& member = pool.members.emplace_back(driver_upgrade::MemberOf(*read));
    member.state = api::UpgradeState::kRequired;
    const auto& notes = read->UpgradeNotes();
    const auto last = notes.find(api::kUpgradeLastAnnotation);
    if (last == notes.end()) continue;
    const auto record = driver_upgrade::ReadRecord(last->second);
    if (record && record->duration) pool.durations.push_back(*record->duration);
  }
  std::vector<std::string> told;
  for (auto& [name, pool] : pools) {
    if (pool.upgraded + pool.restarted + pool.handed_over == 0) continue;
    const auto view =
        std::ranges::find(drivers.views, name, [](const auto& one) { return one->driver.name; });
    if (!by_object) {
      told.push_back(NoteOf("driver", pool, policy.driver.upgrade_policy,
                            desired::NodePolicyOf(policy).driver_auto_upgrade));
    } else if (view != drivers.views.end()) {
      const api::UpgradePolicy& own = (*view)->driver.driver.upgrade_policy;
      told.push_back(NoteOf("NVIDIADriver " + name, pool, own, own.auto_upgrade));
    }
  }
  return told;
}

}  // namespace pitcrew::plan
