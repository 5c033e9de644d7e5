#include "plan/reasons.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/labels.h"
#include "base/strings.h"
#include "desired/node_cleanup.h"
#include "desired/qualification_gate.h"
#include "kube/ownership.h"

namespace pitcrew::plan {
namespace {

using codec::Json;
using desired::Operand;
using desired::RemovalReason;

constexpr std::size_t kMostFields = 3;  // told by name

// Paths of the leaves in which two values differ.
void CollectDifferences(const Json& before, const Json& after, const std::string& path,
                        std::vector<std::string>& paths) {
  if (before == after) return;
  if (!before.is_object() || !after.is_object()) {
    paths.push_back(path);
    return;
  }
  static const Json kNone;
  for (const auto& [name, value] : after.items()) {
    const auto found = before.find(name);
    CollectDifferences(found == before.end() ? kNone : *found, value, PathOfMember(path, name),
                       paths);
  }
  for (const auto& [name, value] : before.items()) {
    if (!after.contains(name)) CollectDifferences(value, kNone, PathOfMember(path, name), paths);
  }
}

std::string Listed(const std::vector<std::string>& fields) {
  std::vector<std::string> told(
      fields.begin(),
      fields.begin() + static_cast<std::ptrdiff_t>(std::min(fields.size(), kMostFields)));
  if (fields.size() > kMostFields) {
    told.push_back(fmt::format("{} more", fields.size() - kMostFields));
  }
  return base::Join(told, ", ");
}

// "spec.dcgm.enabled" as the policy has it; "" when the operand has no such switch in the policy.
std::string Switch(const Operand& operand, const Json& policy) {
  if (operand.blocks.empty()) return "";
  const auto pieces = base::Split(operand.blocks.front(), '.');
  if (pieces.size() != 2) return "";
  const Json* enabled = codec::Find(policy, {"spec", pieces[1], "enabled"});
  if (enabled == nullptr || !enabled->is_boolean()) return "";
  return fmt::format("{}.enabled: {}", operand.blocks.front(), enabled->get<bool>());
}

}  // namespace

Reasons::Reasons(const Json& policy, const Json* stored) : policy_(policy) {
  if (stored == nullptr) return;
  static const Json kNone = Json::object();
  const auto spec = [](const Json& object) -> const Json& {
    const Json* found = codec::Find(object, {"spec"});
    return found == nullptr ? kNone : *found;
  };
  CollectDifferences(spec(*stored), spec(policy), "spec", changed_fields_);
}

std::string Reasons::ChangedFieldsOf(const Operand& operand) const {
  std::vector<std::string> fields;
  for (const std::string& path : changed_fields_) {
    if (operand.Reads(path)) {
      fields.push_back(path);
    }
  }
  return fields.empty() ? "" : "changed in the policy: " + Listed(fields);
}

std::string Reasons::OfCreation(const Operand& operand) const {
  const std::string by = Switch(operand, policy_);
  if (!by.empty()) return by;
  return operand.mode == nullptr || operand.blocks.empty()
             ? fmt::format("{}: part of every installation", operand.title)
             : fmt::format("{}: on by default", operand.title);
}

std::string Reasons::OfChange(std::string_view state, const desired::OwnedObject& live,
                              const codec::Json& desired) const {
  if (live.state.empty()) {
    return live.owner_uid.empty() ? "it exists already; it becomes the operator's"
                                  : "taken over from the operator that made it";
  }
  const auto owner = kube::ControllerOf(desired);
  if (owner && !live.owner_uid.empty() && live.owner_uid != owner->uid) {
    return fmt::format("belongs to another {}, or to one that was deleted", owner->kind);
  }
  if (live.hash == desired::AppliedHash(desired)) {
    return "somebody else has changed it since it was applied";
  }
  if (const Operand* operand = desired::Operands().OfState(state)) {
    if (const std::string fields = ChangedFieldsOf(*operand); !fields.empty()) return fields;
  }
  return "the nodes, the cluster or the operator's version have changed";
}

std::string Reasons::OfRemoval(const desired::Removal& removal) const {
  const Operand* operand = desired::Operands().OfState(removal.object.state);
  if (operand == nullptr) return std::string(ToString(removal.reason));
  if (removal.reason == RemovalReason::kDelegated) {
    return "spec.driver.useNvidiaDriverCRD: left to NVIDIADriver objects; its pods go on running";
  }
  if (removal.reason == RemovalReason::kFormerObject) return std::string(kOfFormerObject);
  if (removal.reason == RemovalReason::kNoLongerPart) {
    const std::string fields = ChangedFieldsOf(*operand);
    std::string why =
        fields.empty() ? fmt::format("{}: no longer part of it", operand->title) : fields;
    if (removal.passes_pods_on) why.append("; ").append(kPodsPassedOn);
    return why;
  }
  const std::string by = Switch(*operand, policy_);
  // Some are off for another reason: spec.sandboxWorkloads, spec.cdi.
  return by.ends_with("false") ? by : fmt::format("{}: switched off", operand->title);
}

std::string ReasonOfNode(const PlannedNode& node, const desired::PolicyView& policy) {
  const auto label = [&](std::string_view key) {
    return codec::FindString(*node.live, {"metadata", "labels", key});
  };
  if (node.decision.removes_gpu) {
    return "its GPU is gone: node feature discovery no longer reports one";
  }
  if (label(api::kDeployOperands) == "false") {
    return fmt::format("{}=false: nothing is deployed here", api::kDeployOperands);
  }
  const auto read = desired::ReadNode(*node.live);
  std::string workload;
  if (read) {
    const auto node_policy = desired::NodePolicyOf(policy.policy);
    workload = ToString(desired::WorkloadOf(*read, node_policy));
    if (desired::IsDivided(*read, node_policy)) workload += ", some GPUs for virtual machines";
  }
  const std::string_view evidence = desired::GpuPciLabel(label);
  if (!evidence.empty() && label(api::kGpuPresent) != "true") {
    return fmt::format("has a GPU ({}), workload {}", evidence, workload);
  }
  return label(api::kGpuPresent) == "true" || !node.decision.labels.empty()
             ? fmt::format("workload {}", workload)
             : "has no GPU";
}

void ChangeTaints(const Json& node, desired::TaintChange change, Item& item) {
  if (change == desired::TaintChange::kNone) return;
  const Json after = desired::TaintsAfter(node, change);
  const Json* before = codec::Find(node, {"spec", "taints"});
  item.changes.push_back(
      {.path = "spec.taints",
       .before = before == nullptr || before->is_null() ? std::optional<Json>() : *before,
       .after = after.is_null() ? std::optional<Json>() : after});
  if (!after.is_null()) item.object["spec"]["taints"] = after;
  item.reason += change == desired::TaintChange::kPut
                     ? "; takes no pods before its GPUs have passed the qualification"
                     : "; no longer held for a qualification of its GPUs";
}

std::vector<std::string> NotesOf(const snapshot::Snapshot& snapshot,
                                 const api::ClusterPolicy& policy, const PlannedCluster& cluster) {
  std::vector<std::string> notes;
  if (const auto active = ActivePolicy(snapshot); active && *active != nullptr) {
    const std::string name = codec::FindString(**active, {"metadata", "name"});
    if (name != policy.name) {
      notes.push_back(fmt::format(
          "ClusterPolicy {} stands in the cluster and is the active one: as long as it is there, "
          "the operator ignores {}",
          name, policy.name));
    }
  }
  if (!cluster.removals_held.empty()) notes.push_back(cluster.removals_held);
  if (!cluster.facts.nfd_labels) {
    notes.emplace_back(
        "no node has a label of node feature discovery: without them GPU nodes are not found");
  } else if (cluster.facts.gpu_nodes == 0) {
    notes.emplace_back("no node has a GPU: DaemonSets are made when the first one joins");
  }
  return notes;
}

void LiftCordon(Item& item) {
  item.reason += "; the cordon of its unfinished driver upgrade is lifted";
  item.changes.push_back({.path = "spec.unschedulable", .before = true, .after = {}});
}

Item ItemOfCleanup(const Json& node) {
  const desired::NodeCleanup cleanup = desired::DecideCleanup(node);
  Item item{.action = cleanup.empty() ? Action::kNone : Action::kChange,
            .object = NodeAfter(node, cleanup.labels, cleanup.annotations),
            .operand = std::string(kNodeLabels),
            .reason = {},
            .changes = {}};
  if (cleanup.empty()) return item;
  item.reason = "the operator takes its labels and annotations along";
  item.changes = MetadataChanges(node, item.object);
  if (cleanup.uncordon) {
    LiftCordon(item);
  }
  if (cleanup.release) ChangeTaints(node, desired::TaintChange::kRemove, item);
  return item;
}

}  // namespace pitcrew::plan
