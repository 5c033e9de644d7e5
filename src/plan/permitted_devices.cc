#include "plan/permitted_devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kubevirt/decision.h"
#include "kubevirt/kinds.h"

namespace pitcrew::plan {
namespace {

using codec::Json;
using kubevirt::Decision;
using kubevirt::Entry;
using kubevirt::Form;
using snapshot::Snapshot;

using Targets = std::vector<std::pair<const Json*, Form>>;

// As they stand in the snapshot; a kind is the same one there in every version.
Targets ObjectsOf(const Snapshot& snapshot, const kube::ResourceKind& kind) {
  Targets targets;
  for (const auto& [key, object] : snapshot.All(kind)) {
    if (const auto form = kubevirt::FormOf(object)) targets.emplace_back(&object, *form);
  }
  return targets;
}

// HyperConverged writes over what stands in KubeVirt.
Targets TargetsOf(const Snapshot& snapshot) {
  auto targets = ObjectsOf(snapshot, kubevirt::kHyperConvergedsV1);
  return targets.empty() ? ObjectsOf(snapshot, kubevirt::kKubeVirts) : targets;
}

// Null when both could be read.
const base::Error* Unread(const Snapshot& snapshot) {
  for (const auto* kind : {&kubevirt::kHyperConvergedsV1, &kubevirt::kKubeVirts}) {
    if (const base::Error* error = snapshot.error(*kind)) return error;
  }
  return nullptr;
}

base::Observed<std::set<std::string>> NamedIn(const Snapshot& snapshot) {
  using Observed = base::Observed<std::set<std::string>>;
  std::set<std::string> all;
  for (const auto* kind : {&kubevirt::kVirtualMachines, &kubevirt::kInstances}) {
    if (const base::Error* error = snapshot.error(*kind)) return Observed::Unknown(*error);
    for (const auto& [key, object] : snapshot.All(*kind)) {
      all.merge(kubevirt::ReadNamedResources(object));
    }
  }
  return Observed::Present(std::move(all));
}

// With what the node has, and the labels that it will have.
std::vector<kubevirt::MachineNode> MachineNodes(const PlannedCluster& cluster) {
  std::vector<kubevirt::MachineNode> nodes;
  for (const PlannedNode& node : cluster.nodes) {
    Json after = NodeAfter(*node.live, node.decision.labels, node.decision.annotations);
    if (!kubevirt::HasPluginLabel(after)) continue;
    if (const Json* status = codec::Find(*node.live, {"status"})) after["status"] = *status;
    nodes.push_back(kubevirt::ReadMachineNode(after));
  }
  return nodes;
}

FieldChange ChangeOf(const Entry& entry, Form form, bool added) {
  const auto list = fmt::format("{}.{}", kubevirt::FieldPath(form), kubevirt::NameOf(entry.list));
  FieldChange change{.path = PathOfMember(list, entry.selector), .before = {}, .after = {}};
  (added ? change.after : change.before) = kubevirt::ToJson(entry, form);
  return change;
}

void AddItem(const Json& object, Form form, const Decision& decision, std::string reason,
             Plan& plan) {
  Item item{.action = Action::kNone,
            .object = {{"apiVersion", kubevirt::KindOf(form).api_version()},
                       {"kind", kubevirt::KindOf(form).kind},
                       {"metadata",
                        {{"name", codec::FindString(object, {"metadata", "name"})},
                         {"namespace", codec::FindString(object, {"metadata", "namespace"})}}}},
            .operand = std::string(kPermittedDevices),
            .reason = {},
            .changes = {}};
  Json after = object;
  if (decision.patch) codec::ApplyMergePatch(after, *decision.patch);
  if (const Json* permitted = kubevirt::FindPermitted(after, form)) {
    codec::ApplyMergePatch(item.object, kubevirt::PatchOf(form, *permitted));
  }
  if (decision.patch) {
    item.action = Action::kChange;
    item.reason = std::move(reason);
    for (const Entry& entry : decision.removed) {
      item.changes.push_back(ChangeOf(entry, form, /*added=*/false));
    }
    for (const Entry& entry : decision.added) {
      item.changes.push_back(ChangeOf(entry, form, /*added=*/true));
    }
  }
  plan.items.push_back(std::move(item));
}

void AddProblem(const Json& object, const base::Error& error, Plan& plan) {
  plan.problems.push_back({.where = fmt::format("{} {}", codec::FindString(object, {"kind"}),
                                                kube::KeyOf(object).ToString()),
                           .message = error.message});
}

std::string ReasonOf(const Decision& decision) {
  if (decision.removed.empty()) return "nodes offer them to virtual machines";
  return decision.added.empty() ? "no node offers them, and no virtual machine asks for them"
                                : "what nodes offer to virtual machines has changed";
}

}  // namespace

std::vector<snapshot::Query> QueriesOfPermittedDevices(const Snapshot& snapshot) {
  std::vector<snapshot::Query> queries{{.kind = kubevirt::kKubeVirts},
                                       {.kind = kubevirt::kVirtualMachines},
                                       {.kind = kubevirt::kInstances}};
  const Json* definition = snapshot.FindPresent(
      kube::kCustomResourceDefinitions,
      {.namespace_name = "", .name = std::string(kubevirt::kHyperConvergedDefinition)});
  if (definition == nullptr) return queries;
  if (const auto form = kubevirt::FormOfDefinition(*definition)) {
    queries.push_back({.kind = kubevirt::KindOf(*form)});
  }
  return queries;
}

void PlanPermittedDevices(const Snapshot& snapshot, const desired::PolicyView& policy,
                          const PlannedCluster& cluster, const gpu::DeviceNames& names,
                          Plan& plan) {
  if (const base::Error* error = Unread(snapshot)) {
    plan.problems.push_back(
        {.where = std::string(kPermittedDevices), .message = error->message, .unread = true});
    return;
  }
  const auto targets = TargetsOf(snapshot);
  if (targets.empty()) {
    plan.notes.emplace_back(
        "there is neither a KubeVirt nor a HyperConverged object, and so "
        "nothing in which devices could be permitted");
  }
  kubevirt::Facts facts;
  facts.nodes = MachineNodes(cluster);
  facts.sandbox = policy.policy.sandbox;
  facts.named = NamedIn(snapshot);
  for (const auto& [object, form] : targets) {
    auto decision = kubevirt::Decide(*object, form, facts, names, {});
    if (decision && !decision->unused.empty()) {
      std::set<std::string> expired;
      for (const Entry& entry : decision->unused) expired.insert(entry.resource);
      decision = kubevirt::Decide(*object, form, facts, names, expired);
    }
    if (!decision) {
      AddProblem(*object, decision.error(), plan);
      continue;
    }
    for (const auto& obstacle : decision->obstacles) plan.notes.push_back(obstacle.message);
    AddItem(*object, form, *decision, ReasonOf(*decision), plan);
  }
}

void PlanRestore(const Snapshot& snapshot, Plan& plan) {
  if (const base::Error* error = Unread(snapshot)) {
    plan.notes.push_back("whether devices were permitted to virtual machines is not known: " +
                         error->message);
  }
  for (const auto* kind : {&kubevirt::kHyperConvergedsV1, &kubevirt::kKubeVirts}) {
    for (const auto& [object, form] : ObjectsOf(snapshot, *kind)) {
      if (!kubevirt::HasRecord(*object)) continue;
      const auto decision = kubevirt::DecideRestore(*object, form);
      if (!decision) {
        AddProblem(*object, decision.error(), plan);
      } else {
        AddItem(*object, form, *decision, "what the operator permitted goes", plan);
      }
    }
  }
}

}  // namespace pitcrew::plan
