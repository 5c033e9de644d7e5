#include "plan/departing_pods.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "driver_upgrade/step.h"
#include "kube/selector.h"
#include "plan/budgets.h"
#include "plan/upgrades.h"
#include "snapshot/live.h"
#include "workload/drain.h"
#include "workload/gpu_use.h"

namespace pitcrew::plan {
namespace {

using codec::Json;
using snapshot::Snapshot;

// So many nodes are asked for their pods one by one; with more, the whole list is less work.
constexpr std::size_t kMostNodesAlone = 32;

void KeepOnly(Json& object, std::initializer_list<std::string_view> members) {
  if (!object.is_object()) return;
  Json kept = Json::object();
  for (const std::string_view member : members) {
    if (auto found = object.find(member); found != object.end()) kept[member] = std::move(*found);
  }
  object = std::move(kept);
}

std::vector<std::string> UpgradedNodes(const Plan& plan) {
  std::vector<std::string> names;
  for (const DriverUpgrade& upgrade : plan.upgrades) {
    if (!upgrade.evicts()) continue;
    for (const NodeUpgrade& node : upgrade.nodes) {
      if (node.change == DriverChange::kUpgraded && !node.skipped) names.push_back(node.node);
    }
  }
  return names;
}

using PodsByNode = std::map<std::string, std::vector<Json>, std::less<>>;

PodsByNode ByNode(const Snapshot& snapshot) {
  PodsByNode pods;
  for (const auto& [key, pod] : snapshot.All(kube::kPods)) {
    pods[codec::FindString(pod, {"spec", "nodeName"})].push_back(pod);
  }
  return pods;
}

std::string WhyUnknown(const Snapshot& snapshot) {
  if (const base::Error* error = snapshot.error(kube::kPods)) return error->message;
  // A file of a cluster without any pod is one that pods were left out of.
  if (snapshot.coverage(kube::kPods) != snapshot::Coverage::kRead &&
      snapshot.All(kube::kPods).empty()) {
    return fmt::format("{} has no pods", snapshot.origin());
  }
  return "";
}

workload::ClaimReader ClaimsOf(const Snapshot& snapshot) {
  return [&snapshot](const kube::ObjectKey& key) {
    const auto found = snapshot.Find(workload::kClaimVersions.front(), key);
    if (found.is_present()) return base::Observed<Json>::Present(**found.value());
    if (found.is_absent()) return base::Observed<Json>::Missing();
    return base::Observed<Json>::Unknown(*found.error());
  };
}

// The selectors of one upgrade policy.
struct Selectors {
  kube::LabelSelector jobs;
  kube::LabelSelector drained;
};
base::Result<Selectors> SelectorsOf(const api::UpgradePolicy& policy) {
  Selectors selectors;
  TRY_ASSIGN(selectors.jobs, kube::LabelSelector::Parse(policy.wait_pod_selector));
  TRY_ASSIGN(selectors.drained, kube::LabelSelector::Parse(driver_upgrade::DrainSelector(policy)));
  return selectors;
}

void Name(const workload::DrainPlan& plan, const std::vector<Json>& pods, const Budgets& budgets,
          NodeUpgrade& node) {
  for (const workload::PodReference& one : plan.evict) {
    const std::string name = one.key.ToString();
    node.evicted.push_back(name);
    for (const Json& pod : pods) {
      if (kube::KeyOf(pod) != one.key) continue;
      if (const std::string why = budgets.WhyKept(pod); !why.empty()) {
        node.kept.push_back(fmt::format("{}: {}", name, why));
      }
    }
  }
}

// As the states wait-for-jobs-required, pod-deletion-required and drain-required go on.
void Decide(const std::vector<Json>& pods, const api::UpgradePolicy& policy,
            const Selectors& selectors, const workload::ClaimReader& claims, const Budgets& budgets,
            NodeUpgrade& node) {
  std::vector<Json> with_gpus;
  std::vector<Json> drained;
  for (const Json& pod : pods) {
    if (!policy.wait_pod_selector.empty() && selectors.jobs.Selects(pod) &&
        !workload::HasEnded(pod)) {
      node.waits_for.push_back(kube::KeyOf(pod).ToString());
    }
    if (workload::UsesGpu(pod, claims)) with_gpus.push_back(pod);
    if (selectors.drained.Selects(pod)) drained.push_back(pod);
  }
  const auto deletion = workload::PlanDrain(with_gpus, workload::OptionsOf(policy.pod_deletion));
  node.refused = deletion.refused;
  if (node.refused.empty()) {
    Name(deletion, with_gpus, budgets, node);
    return;
  }
  node.fails = true;
  if (!policy.drain_enabled) return;
  const auto drain = workload::PlanDrain(drained, workload::OptionsOf(policy.drain));
  node.drain_refused = drain.refused;
  if (!node.drain_refused.empty()) return;
  node.fails = false;
  node.drained = true;
  Name(drain, drained, budgets, node);
}

}  // namespace

void TrimPod(Json& pod) {
  KeepOnly(pod, {"apiVersion", "kind", "metadata", "spec", "status"});
  if (auto metadata = pod.find("metadata"); metadata != pod.end()) {
    KeepOnly(*metadata, {"name", "namespace", "uid", "labels", "annotations", "ownerReferences",
                         "deletionTimestamp"});
    if (auto annotations = metadata->find("annotations"); annotations != metadata->end()) {
      KeepOnly(*annotations, {workload::kMirrorAnnotation});
    }
  }
  if (auto status = pod.find("status"); status != pod.end()) {
    KeepOnly(*status, {"phase", "conditions", "resourceClaimStatuses"});
  }
  const auto spec = pod.find("spec");
  if (spec == pod.end() || !spec->is_object()) return;
  KeepOnly(*spec, {"nodeName", "containers", "initContainers", "volumes", "resourceClaims"});
  for (const char* list : {"containers", "initContainers"}) {
    if (auto found = spec->find(list); found != spec->end() && found->is_array()) {
      for (Json& container : *found) KeepOnly(container, {"resources"});
    }
  }
}

base::Status ReadDepartingPods(kube::Client& client, const Plan& plan, Snapshot& snapshot,
                               const io::StopToken& stop) {
  const std::vector<std::string> nodes = UpgradedNodes(plan);
  if (nodes.empty()) return {};
  std::vector<snapshot::Query> queries{{.kind = kDisruptionBudgets}};
  if (nodes.size() > kMostNodesAlone) {
    queries.push_back({.kind = kube::kPods, .trim = TrimPod});
  } else {
    for (const std::string& node : nodes) {
      queries.push_back(
          {.kind = kube::kPods, .field_selector = "spec.nodeName=" + node, .trim = TrimPod});
    }
  }
  TRY(snapshot::ReadMore(client, queries, snapshot, stop));
  const bool claims = std::ranges::any_of(snapshot.All(kube::kPods), [](const auto& entry) {
    return !workload::ClaimNames(entry.second).empty();
  });
  if (!claims) return {};
  for (const kube::ResourceKind& kind : workload::kClaimVersions) {
    const std::vector<snapshot::Query> query{{.kind = kind}};
    TRY(snapshot::ReadMore(client, query, snapshot, stop));
    if (snapshot.coverage(kind) != snapshot::Coverage::kNotServed) break;
  }
  return {};
}

void AddDepartingPods(const Snapshot& snapshot, Plan& plan) {
  const std::string unknown = WhyUnknown(snapshot);
  const PodsByNode pods = ByNode(snapshot);
  const workload::ClaimReader claims = ClaimsOf(snapshot);
  const Budgets budgets(snapshot);
  static const std::vector<Json> kNone;
  for (DriverUpgrade& upgrade : plan.upgrades) {
    upgrade.pods_unknown = unknown;
    upgrade.budgets_unknown = budgets.unknown();
    const auto selectors = SelectorsOf(upgrade.policy);
    if (!selectors) upgrade.pods_unknown = selectors.error().message;
    if (upgrade.evicts() && upgrade.pods_unknown.empty()) {
      for (NodeUpgrade& node : upgrade.nodes) {
        if (node.change != DriverChange::kUpgraded || node.skipped) continue;
        const auto found = pods.find(node.node);
        Decide(found == pods.end() ? kNone : found->second, upgrade.policy, *selectors, claims,
               budgets, node);
      }
    }
    upgrade.note = NoteOf(upgrade);
    plan.notes.push_back(upgrade.note);
  }
  if (const base::Error* error = snapshot.error(workload::kClaimVersions.front())) {
    plan.notes.push_back("claims of pods cannot be read, and count as claims of GPUs: " +
                         error->message);
  }
}

}  // namespace pitcrew::plan
