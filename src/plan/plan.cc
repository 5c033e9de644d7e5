#include "plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include "api/labels.h"
#include "api/schema.h"
#include "desired/cluster_kinds.h"
#include "desired/owned_object.h"
#include "desired/predecessor.h"
#include "desired/removal.h"
#include "desired/render.h"
#include "kube/ownership.h"
#include "plan/cluster.h"
#include "plan/drivers.h"
#include "plan/field_problems.h"
#include "plan/permitted_devices.h"
#include "plan/reasons.h"
#include "plan/upgrades.h"

namespace pitcrew::plan {
namespace {

using codec::Json;
using desired::Mode;
using desired::Operand;
using desired::RenderedOperand;
using snapshot::Snapshot;

const std::string& HashPath() {
  static const std::string kPath = PathOfMember("metadata.annotations", api::kLastAppliedHash);
  return kPath;
}

// The annotation that holds the hash, or the annotations when there is none but that.
bool IsBookkeeping(const FieldChange& change) {
  if (change.path == HashPath()) return true;
  return change.path == "metadata.annotations" && change.after && change.after->size() == 1 &&
         change.after->contains(api::kLastAppliedHash);
}

class Planner {
 public:
  Planner(const Snapshot& snapshot, const desired::PolicyView& policy, Reasons reasons)
      : snapshot_(snapshot), policy_(policy), reasons_(std::move(reasons)) {}

  void PlanOperand(const RenderedOperand& rendered);
  void PlanRemovals(std::span<const RenderedOperand> rendered,
                    const std::string& operator_namespace) {
    PlanRemovalsOf(policy_.policy.uid, rendered, operator_namespace);
  }
  // `changed`: fields of the driver that are changed; "" when none is.
  void PlanDriver(const PlannedDriver& driver, const std::string& changed,
                  const std::string& operator_namespace);
  void PlanNode(const PlannedNode& node);
  void PlanNamespace(const std::string& name, const desired::Facts& facts);
  // Once per kind that could not be read.
  void ReportUnreadable();
  // Each is another owner of what the policy owns.
  void ReportGpuClusters();
  // Why operands are not planned; one line for what concerns several.
  void ReportFailures();

  Plan Take() { return std::move(plan_); }
  Plan& plan() { return plan_; }

 private:
  void PlanRemovalsOf(const std::string& owner_uid, std::span<const RenderedOperand> rendered,
                      const std::string& operator_namespace, std::string_view driver_object = {});
  void PlanObject(const Json& desired, const RenderedOperand& rendered);
  void PlanChange(Item& item, const Json& live);

  const Snapshot& snapshot_;
  const desired::PolicyView& policy_;
  Reasons reasons_;
  std::vector<std::pair<std::string, base::Error>> failures_;  // by state
  Plan plan_;
};

void Planner::ReportGpuClusters() {
  if (const base::Error* error = snapshot_.error(desired::kGpuClusters)) {
    plan_.problems.push_back({.where = "gpuclusters", .message = error->message, .unread = true});
  }
  for (const auto& [key, object] : snapshot_.All(desired::kGpuClusters)) {
    plan_.problems.push_back(
        {.where = {}, .message = desired::GpuClusterConflict(key.name, policy_.policy.name)});
  }
}

void Planner::PlanChange(Item& item, const Json& live) {
  const Json& desired = item.object;
  const desired::OwnedObject owned = desired::ReadOwned(live);
  item.changes = FieldChanges(live, desired);
  for (FieldChange& gone :
       AbandonedFields(live, desired, {desired::kFieldManager, desired::kUpstreamManager})) {
    const auto same = [&](const FieldChange& change) { return change.path == gone.path; };
    if (std::ranges::none_of(item.changes, same)) item.changes.push_back(std::move(gone));
  }
  if (item.changes.empty()) return;
  // The hash follows from all else: it is only told when nothing else is.
  const auto others = std::ranges::count_if(item.changes, std::not_fn(IsBookkeeping));
  if (others > 0) std::erase_if(item.changes, IsBookkeeping);
  item.action = Action::kChange;
  item.reason = reasons_.OfChange(item.operand, owned, desired);
}

void Planner::PlanObject(const Json& desired, const RenderedOperand& rendered) {
  Item item{.action = Action::kNone,
            .object = desired,
            .operand = std::string(rendered.operand->state),
            .reason = {},
            .changes = {}};
  const kube::ResourceKind* kind = desired::KindOf(desired);
  if (kind == nullptr) {
    plan_.problems.push_back({.where = item.kind(), .message = "no API is known for this kind"});
    return;
  }
  const auto found = snapshot_.Find(*kind, kube::KeyOf(desired));
  if (found.is_unknown()) {
    item.action = Action::kUnknown;
    item.reason = fmt::format("{} cannot be read", kind->plural);
  } else if (found.is_absent()) {
    item.action = Action::kCreate;
    item.reason = reasons_.OfCreation(*rendered.operand);
  } else {
    PlanChange(item, **found.value());
  }
  plan_.items.push_back(std::move(item));
}

void Planner::PlanDriver(const PlannedDriver& driver, const std::string& changed,
                         const std::string& operator_namespace) {
  const std::string name = "NVIDIADriver " + driver.view->driver.name;
  const std::size_t first = plan_.items.size();
  PlanOperand(driver.rendered);
  if (!driver.keeps_all && !driver.view->driver.uid.empty()) {
    PlanRemovalsOf(driver.view->driver.uid, {&driver.rendered, 1}, operator_namespace,
                   driver.view->driver.name);
  }
  for (std::size_t i = first; i < plan_.items.size(); ++i) {
    Item& item = plan_.items[i];
    if (item.action == Action::kCreate) item.reason = name;
    if (item.action == Action::kChange && !changed.empty()) {
      item.reason = fmt::format("changed in {}: {}", name, changed);
    }
    if (item.action != Action::kDelete) continue;
    if (driver.rendered.mode == Mode::kDelegated) {
      item.reason =
          "spec.driver.useNvidiaDriverCRD is not true: the driver is the ClusterPolicy's; pods go "
          "on running";
      continue;
    }
    if (item.reason == kOfFormerObject) continue;
    const bool passed_on = item.reason.ends_with(kPodsPassedOn);
    item.reason = name + ": no node of it needs this";
    if (passed_on) item.reason.append("; ").append(kPodsPassedOn);
  }
}

void Planner::PlanRemovalsOf(const std::string& owner_uid,
                             std::span<const RenderedOperand> rendered,
                             const std::string& operator_namespace,
                             std::string_view driver_object) {
  std::vector<desired::StandingObject> standing;
  for (const kube::ResourceKind& kind : desired::OwnedKinds()) {
    for (const auto& [key, object] : snapshot_.All(kind)) {
      // The operator looks nowhere else.
      if (kind.namespaced && key.namespace_name != operator_namespace) continue;
      standing.push_back(desired::StandingOf(kind, object));
    }
  }
  for (const desired::Removal& removal :
       desired::DecideRemovals(rendered, standing, owner_uid, desired::Operands(), driver_object)) {
    plan_.items.push_back(
        {.action = Action::kDelete,
         .object = *snapshot_.FindPresent(*removal.object.kind, removal.object.key),
         .operand = removal.object.state,
         .reason = reasons_.OfRemoval(removal),
         .changes = {}});
  }
}

void Planner::PlanOperand(const RenderedOperand& rendered) {
  if (rendered.mode != Mode::kEnabled) return;
  if (!rendered.objects) {
    failures_.emplace_back(rendered.operand->state, rendered.objects.error());
    return;
  }
  for (const Json& object : *rendered.objects) PlanObject(object, rendered);
}

void Planner::PlanNode(const PlannedNode& node) {
  Item item{.action = Action::kNone,
            .object = NodeAfter(*node.live, node.decision.labels, node.decision.annotations),
            .operand = std::string(kNodeLabels),
            .reason = {},
            .changes = {}};
  if (!node.decision.empty()) {
    item.action = Action::kChange;
    item.reason = ReasonOfNode(node, policy_);
    item.changes = MetadataChanges(*node.live, item.object);
    ChangeTaints(*node.live, node.decision.taint, item);
    if (node.decision.uncordon) LiftCordon(item);
  }
  plan_.items.push_back(std::move(item));
}

void Planner::PlanNamespace(const std::string& name, const desired::Facts& facts) {
  const Json unlabelled = {{"metadata", {{"name", name}}}};
  const auto found = snapshot_.Find(kube::kNamespaces, {.namespace_name = "", .name = name});
  if (!desired::MissingNamespaceLabels(policy_.policy, facts, unlabelled).empty() &&
      found.is_unknown()) {
    plan_.problems.push_back(
        {.where = "namespace " + name, .message = found.error()->message, .unread = true});
  }
  if (found.is_unknown()) return;
  // The namespace of a file that does not list it is one without labels.
  const Json& live = found.is_present() ? **found.value() : unlabelled;
  const auto labels = desired::MissingNamespaceLabels(policy_.policy, facts, live);
  if (labels.empty()) return;
  Item item{.action = Action::kChange,
            .object = {{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", {{"name", name}}}},
            .operand = std::string(kNamespaceLabels),
            .reason = policy_.policy.psa_enabled ? "spec.psa.enabled: privileged pods are let in"
                                                 : "OpenShift's monitoring looks at it",
            .changes = {}};
  if (const Json* all = codec::Find(live, {"metadata", "labels"})) {
    item.object["metadata"]["labels"] = *all;
  }
  for (const auto& [key, value] : labels) {
    item.object["metadata"]["labels"][key] = value;
    const std::string before = codec::FindString(live, {"metadata", "labels", key});
    item.changes.push_back({.path = PathOfMember("metadata.labels", key),
                            .before = before.empty() ? std::optional<Json>() : Json(before),
                            .after = value});
  }
  plan_.items.push_back(std::move(item));
}

void Planner::ReportUnreadable() {
  for (const kube::ResourceKind& kind : desired::OwnedKinds()) {
    if (const base::Error* error = snapshot_.error(kind)) {
      plan_.problems.push_back(
          {.where = std::string(kind.plural), .message = error->message, .unread = true});
    }
  }
}

void Planner::ReportFailures() {
  std::vector<Problem> found;
  Problem invalid{.where = {}, .message = "not planned because of these fields", .operands = {}};
  for (const auto& [state, error] : failures_) {
    // The fields themselves are told already.
    if (error.reason == "InvalidPolicy") {
      invalid.operands.push_back(state);
      continue;
    }
    const auto same = std::ranges::find(found, error.message, &Problem::message);
    if (same != found.end()) {
      same->operands.push_back(state);
    } else {
      found.push_back({.where = {},
                       .message = error.message,
                       .operands = {state},
                       .unread = error.code != base::Code::kInvalid});
    }
  }
  if (!invalid.operands.empty()) plan_.problems.push_back(std::move(invalid));
  std::ranges::move(found, std::back_inserter(plan_.problems));
}

void Sort(Plan& plan) {
  std::ranges::stable_sort(plan.items, {}, [](const Item& item) {
    return std::tuple(item.kind(), item.name_space(), item.name());
  });
}

// The policy under the identity of the one that stands under its name.
Json Adopted(const Json& policy, const Json* stored) {
  Json adopted = policy;
  if (stored == nullptr) return adopted;
  for (const char* member : {"uid", "creationTimestamp", "generation"}) {
    if (const Json* value = codec::Find(*stored, {"metadata", member})) {
      adopted["metadata"][member] = *value;
    }
  }
  const Json* annotations = codec::Find(*stored, {"metadata", "annotations"});
  if (annotations != nullptr && codec::Find(adopted, {"metadata", "annotations"}) == nullptr) {
    adopted["metadata"]["annotations"] = *annotations;
  }
  return adopted;
}

}  // namespace

std::string_view ToString(Action action) {
  switch (action) {
    case Action::kNone:
      return "unchanged";
    case Action::kCreate:
      return "create";
    case Action::kChange:
      return "change";
    case Action::kDelete:
      return "delete";
    case Action::kUnknown:
      return "unknown";
  }
  return "";
}

std::string Item::kind() const { return codec::FindString(object, {"kind"}); }
std::string Item::name_space() const {
  return codec::FindString(object, {"metadata", "namespace"});
}
std::string Item::name() const { return codec::FindString(object, {"metadata", "name"}); }

std::size_t Plan::Count(Action action) const {
  return static_cast<std::size_t>(
      std::ranges::count_if(items, [&](const Item& item) { return item.action == action; }));
}

bool Plan::has_changes() const {
  return std::ranges::any_of(items, [](const Item& item) { return item.action != Action::kNone; });
}

base::Result<Plan> MakePlan(const Snapshot& snapshot, const Json& policy, const Options& options,
                            const std::vector<Json>& given_drivers) {
  const Json* stored = snapshot.FindPresent(
      desired::kClusterPolicies,
      {.namespace_name = "", .name = codec::FindString(policy, {"metadata", "name"})});
  const Json adopted = Adopted(policy, stored);
  TRY_ASSIGN(const desired::PolicyView view, desired::ReadPolicyView(adopted));
  if (view.policy.name.empty()) {
    return base::Fail(base::Invalid("InvalidPolicy", "metadata.name: is required"));
  }
  TRY_ASSIGN(const WantedDrivers drivers, ReadWantedDrivers(snapshot, given_drivers));
  std::shared_ptr<const desired::DriverAssignment> assignment;
  if (view.policy.driver.use_nvidia_driver_crd && !drivers.unread) {
    assignment = std::make_shared<const desired::DriverAssignment>(drivers.views);
  }
  TRY_ASSIGN(const PlannedCluster cluster,
             ReadCluster(snapshot, view, options.operator_namespace, options.kubernetes_version,
                         assignment, ReferencesOf(drivers)));
  Planner planner(snapshot, view, Reasons(adopted, stored));
  Plan& plan = planner.plan();
  plan.problems = ProblemsOfFields("", {api::CheckClusterPolicy(adopted), view.policy.problems,
                                        desired::CheckPolicy(view.policy)});
  std::ranges::copy(drivers.problems, std::back_inserter(plan.problems));
  planner.ReportUnreadable();
  planner.ReportGpuClusters();
  const desired::Context context{.policy = view.policy,
                                 .facts = cluster.facts,
                                 .images = options.images,
                                 .operator_namespace = options.operator_namespace};
  const std::vector<RenderedOperand> rendered = desired::Render(context);
  for (const RenderedOperand& operand : rendered) planner.PlanOperand(operand);
  for (const PlannedDriver& driver :
       PlanDrivers(drivers, snapshot, view.policy, cluster, options, plan.problems)) {
    const auto changed = drivers.changed_fields.find(driver.view->driver.name);
    planner.PlanDriver(driver, changed == drivers.changed_fields.end() ? "" : changed->second,
                       options.operator_namespace);
  }
  planner.ReportFailures();
  planner.PlanRemovals(rendered, options.operator_namespace);
  for (const PlannedNode& node : cluster.nodes) planner.PlanNode(node);
  planner.PlanNamespace(options.operator_namespace, cluster.facts);
  plan.notes = NotesOf(snapshot, view.policy, cluster);
  for (const auto& driver : drivers.views) {
    if (!driver->driver.uid.empty() || assignment == nullptr) continue;
    plan.notes.push_back(
        fmt::format("NVIDIADriver {} is new: the names of its DaemonSets will end in a hash of the "
                    "uid that the cluster gives it",
                    driver->driver.name));
  }
  plan.upgrades = DriverUpgradesOf(snapshot, view.policy, drivers, cluster, plan.items,
                                   options.operator_namespace);
  if (options.permit) PlanPermittedDevices(snapshot, view, cluster, *options.permit, plan);
  Sort(plan);
  return planner.Take();
}

base::Result<Plan> MakeUninstallPlan(const Snapshot& snapshot) {
  if (const base::Error* error = snapshot.error(desired::kClusterPolicies)) {
    return base::Fail(*error);
  }
  Plan plan;
  std::map<std::string, std::string> policies;  // uid to name
  for (const auto& [key, object] : snapshot.All(desired::kClusterPolicies)) {
    policies[codec::FindString(object, {"metadata", "uid"})] = key.name;
    plan.items.push_back({.action = Action::kDelete,
                          .object = object,
                          .operand = {},
                          .reason = "the policy goes, and with it all that it owns",
                          .changes = {}});
  }
  policies.erase("");
  for (const kube::ResourceKind& kind : desired::OwnedKinds()) {
    if (const base::Error* error = snapshot.error(kind)) {
      plan.problems.push_back(
          {.where = std::string(kind.plural), .message = error->message, .unread = true});
    }
    for (const auto& [key, object] : snapshot.All(kind)) {
      const auto owner = kube::ControllerOf(object);
      if (!owner || !policies.contains(owner->uid)) continue;
      plan.items.push_back(
          {.action = Action::kDelete,
           .object = object,
           .operand = desired::StateOfObject(object),
           .reason = fmt::format("owned by ClusterPolicy {}", policies[owner->uid]),
           .changes = {}});
    }
  }
  if (const base::Error* error = snapshot.error(kube::kNodes)) {
    plan.problems.push_back({.where = "nodes", .message = error->message, .unread = true});
  }
  for (const auto& [key, object] : snapshot.All(kube::kNodes)) {
    plan.items.push_back(ItemOfCleanup(object));
  }
  PlanRestore(snapshot, plan);
  Sort(plan);
  return plan;
}

}  // namespace pitcrew::plan
