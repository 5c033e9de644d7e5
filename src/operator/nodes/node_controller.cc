#include "operator/nodes/node_controller.h"

#include <fmt/format.h>

#include "api/labels.h"
#include "base/log.h"
#include "base/strings.h"
#include "desired/node_cleanup.h"
#include "desired/qualification_gate.h"
#include "operator/nodes/clean_up_node.h"
#include "operator/roll_out/rollout.h"

namespace pitcrew::gpu_operator {
namespace {

// Names no node: node names are DNS names.
const kube::ObjectKey kEveryNode{.namespace_name = "", .name = "*"};

// As many as there may be calls in flight; how many there are is found out (ConcurrencyLimit).
constexpr int kWorkers = kube::ConcurrencyLimit::Options{}.most;

codec::Json ToJson(const desired::Changes& changes) {
  codec::Json object = codec::Json::object();
  for (const auto& [key, value] : changes) {
    object[key] = value ? codec::Json(*value) : codec::Json(nullptr);
  }
  return object;
}

}  // namespace

NodeController::NodeController(World& world, std::chrono::milliseconds removal_grace,
                               desired::RemovalBudget& budget, kube::EventRecorder& events,
                               std::function<void()> synced)
    : world_(world),
      budget_(budget),
      events_(events),
      removal_grace_(removal_grace),
      controller_({.name = "nodes", .workers = kWorkers, .synced = std::move(synced)},
                  [this](const kube::ObjectKey& key, const io::StopToken& stop) {
                    return Reconcile(key, stop);
                  }) {
  controller_.Watch<desired::Node>(
      world.nodes, [this](const kube::Change<desired::Node>& change, const auto& enqueue) {
        NoteLoss(change);
        TellUnknownWorkload(change);
        const bool mass = HoldsRemovals();
        // What was held back may go on.
        if (mass_removal_ && !mass) enqueue(kEveryNode);
        mass_removal_ = mass;
        LookAtRuntimes();
        if (change.before != nullptr && change.now != nullptr && *change.before == *change.now)
          return;
        enqueue(change.key);
      });
  controller_.Watch<desired::PolicyView>(
      world.policies, [this](const kube::Change<desired::PolicyView>& change, const auto& enqueue) {
        NotePolicy(change);
        // A change of its status concerns no node.
        if (change.before != nullptr && change.now != nullptr &&
            desired::NodePolicyOf(change.before->policy) ==
                desired::NodePolicyOf(change.now->policy) &&
            change.before->allow_mass_removal == change.now->allow_mass_removal &&
            change.before->deleting == change.now->deleting) {
          return;
        }
        enqueue(kEveryNode);
      });
  if (world.drivers) {
    controller_.Watch<desired::DriverView>(
        *world.drivers, [](const kube::Change<desired::DriverView>& change, const auto& enqueue) {
          // A change of its status concerns no node.
          if (change.before != nullptr && change.now != nullptr &&
              change.before->driver.generation == change.now->driver.generation &&
              change.before->driver.uid == change.now->driver.uid &&
              change.before->deleting == change.now->deleting) {
            return;
          }
          enqueue(kEveryNode);
        });
  }
  // Which toolkit a node gets depends on those that stand.
  for (Inventory::Kind& kind : world.inventory.kinds()) {
    if (*kind.kind != kube::kDaemonSets) continue;
    controller_.Watch<desired::OwnedObject>(
        *kind.informer, [this](const kube::Change<desired::OwnedObject>& change, const auto&) {
          const auto is_toolkit = [](const auto& object) {
            return object != nullptr && object->toolkit_runtime.has_value();
          };
          if (is_toolkit(change.before) || is_toolkit(change.now)) LookAtRuntimes();
        });
  }
}

void NodeController::TellUnknownWorkload(const kube::Change<desired::Node>& change) {
  if (change.now == nullptr) return;
  const auto label = [](const desired::Node& node) {
    return node.labels.Get(api::kWorkloadConfig);
  };
  const std::string_view now = label(*change.now);
  if (!desired::IsUnknownWorkload(now)) return;
  if (change.before != nullptr && label(*change.before) == now) return;
  Warn(change.key.name, "UnknownWorkload",
       fmt::format("the label {}={} names none of container, vm-passthrough, vm-vgpu: the node "
                   "stays as it is",
                   api::kWorkloadConfig, now));
}

void NodeController::TellSplitIgnored(const desired::Node& node,
                                      const desired::NodePolicy& policy) {
  const std::string why = desired::WhyNotDivided(node, policy);
  {
    const std::lock_guard lock(mutex_);
    const auto told = not_divided_.find(node.name);
    if ((told == not_divided_.end() ? "" : told->second) == why) return;
    if (why.empty()) {
      not_divided_.erase(told);
      return;
    }
    not_divided_[node.name] = why;
  }
  Warn(node.name, "GpuSplitIgnored",
       fmt::format("the annotation {} has no effect: {}", desired::kMachineGpus, why));
}

void NodeController::Warn(const std::string& node, std::string reason, std::string message) {
  // Involved objects of nodes have their name as uid, as the kubelet writes it.
  events_.Record({.about = {.api_version = "v1",
                            .kind = "Node",
                            .key = {.namespace_name = "", .name = node},
                            .uid = node},
                  .type = kube::EventType::kWarning,
                  .reason = std::move(reason),
                  .message = std::move(message)});
}

void NodeController::LookAtRuntimes() {
  const auto main = world_.NodeMainRuntime();
  {
    const std::lock_guard lock(mutex_);
    if (main == main_runtime_) return;
    main_runtime_ = main;
  }
  controller_.Enqueue(kEveryNode);
}

void NodeController::NotePolicy(const kube::Change<desired::PolicyView>& change) {
  if (change.now != nullptr) {
    policy_deleted_ = false;
    return;
  }
  // Whoever deletes a policy and orphans its objects wants the nodes to go on as they are.
  policy_deleted_ = change.before != nullptr && !change.before->orphans;
  base::LogInfo("a ClusterPolicy was deleted", {{"policy", change.key.name}});
}

bool NodeController::cleaning_up() const {
  const auto& policies = world_.policies.store();
  return policy_deleted_ && policies.synced() && policies.size() == 0;
}

void NodeController::NoteLoss(const kube::Change<desired::Node>& change) {
  const std::lock_guard lock(mutex_);
  if (change.now == nullptr || change.now->has_gpu_pci_label()) {
    budget_.Return(change.key.name);
  } else if (!change.now->gpu_present()) {
    budget_.Confirm(change.key.name);
  }
}

bool NodeController::HoldsRemovals() const {
  const auto [gpu_nodes, losing] = world_.fleet.sizes();
  const std::lock_guard lock(mutex_);
  return budget_.Holds(gpu_nodes, losing, base::SteadyClock::now());
}

std::string NodeController::removals_held() const {
  const auto policy = world_.ActivePolicy();
  const auto [gpu_nodes, losing] = world_.fleet.sizes();
  const std::lock_guard lock(mutex_);
  return budget_.WhyHeld(gpu_nodes, losing, policy != nullptr && policy->allow_mass_removal,
                         base::SteadyClock::now());
}

std::optional<kube::Action> NodeController::WaitBeforeRemoval(const std::string& node,
                                                              const desired::PolicyView& policy) {
  const auto now = base::SteadyClock::now();
  base::SteadyClock::time_point since;
  {
    const std::lock_guard lock(mutex_);
    since = losing_.try_emplace(node, now).first->second;
  }
  if (now - since < removal_grace_) {
    return kube::Action::RequeueAfter(removal_grace_ - (now - since));
  }
  if (policy.allow_mass_removal || !HoldsRemovals()) return std::nullopt;
  // Asked again when so many nodes have their GPU back that it is no mass removal any more, and
  // when losses of before count no longer.
  base::LogWarning("the GPU labels of a node without GPU are kept",
                   {{"node", node}, {"why", removals_held()}});
  const std::lock_guard lock(mutex_);
  const auto release = budget_.NextRelease(now);
  return release ? kube::Action::RequeueAfter(*release - now) : kube::Action::Done();
}

base::Status NodeController::Patch(const std::string& node, const desired::NodeDecision& decision,
                                   const io::StopToken& stop) {
  codec::Json patch = {{"metadata", codec::Json::object()}};
  if (!decision.labels.empty()) patch["metadata"]["labels"] = ToJson(decision.labels);
  if (!decision.annotations.empty()) {
    patch["metadata"]["annotations"] = ToJson(decision.annotations);
  }
  if (decision.uncordon) patch["spec"]["unschedulable"] = nullptr;
  const kube::ObjectKey key{.namespace_name = "", .name = node};
  if (decision.taint != desired::TaintChange::kNone) {
    // Taints are one list: written over those that were read, and only if nobody was faster.
    const auto standing = world_.client->Get(kube::kNodes, key, stop);
    if (!standing) {
      if (standing.error().code == base::Code::kNotFound) return {};
      return base::Fail(standing.error().Within("read the taints of node " + node));
    }
    patch["spec"]["taints"] = desired::TaintsAfter(*standing, decision.taint);
    patch["metadata"]["resourceVersion"] =
        codec::FindString(*standing, {"metadata", "resourceVersion"});
  }
  const auto patched = world_.client->PatchVersion(
      kube::kNodes, key, kube::PatchType::kMerge, patch,
      {.field_manager = std::string(desired::kFieldManager)}, stop, &pace_);
  if (!patched) {
    // A node that is gone needs no labels.
    if (patched.error().code == base::Code::kNotFound) return {};
    return base::Fail(patched.error().Within("label node " + node));
  }
  if (const auto version = base::ParseUnsigned(*patched)) {
    const std::lock_guard lock(mutex_);
    patched_[node] = {.version = *version, .at = base::SteadyClock::now()};
  }
  base::LogInfo("node labelled", {{"node", node}, {"change", codec::ToJsonText(patch)}});
  return {};
}

std::optional<std::chrono::nanoseconds> NodeController::EchoAwaited(const desired::Node& node) {
  const std::lock_guard lock(mutex_);
  const auto patched = patched_.find(node.name);
  if (patched == patched_.end()) return std::nullopt;
  const auto age = base::SteadyClock::now() - patched->second.at;
  // A patch that changed nothing has no echo.
  if (node.version < patched->second.version && age < kEchoTimeout) return kEchoTimeout - age;
  patched_.erase(patched);
  return std::nullopt;
}

base::Result<kube::Action> NodeController::Reconcile(const kube::ObjectKey& key,
                                                     const io::StopToken& stop) {
  if (key == kEveryNode) {
    for (const auto& [node, view] : world_.nodes.store().Snapshot()) controller_.Enqueue(node);
    return kube::Action::Done();
  }
  const auto policy = world_.ActivePolicy();
  const auto found = world_.nodes.store().Find(key);
  if (found.is_unknown()) return base::Fail(*found.error());
  const auto forget = [&] {
    const std::lock_guard lock(mutex_);
    losing_.erase(key.name);
    return kube::Action::Done();
  };
  if (found.is_absent()) {
    const std::lock_guard lock(mutex_);
    patched_.erase(key.name);
    losing_.erase(key.name);
    not_divided_.erase(key.name);
    return kube::Action::Done();
  }
  const desired::Node& node = **found.value();
  if (policy == nullptr) {
    if (cleaning_up() && desired::HasTraces(node)) TRY(CleanUpNode(*world_.client, key.name, stop));
    return forget();
  }
  if (const auto wait = EchoAwaited(node)) return kube::Action::RequeueAfter(*wait);
  const auto node_policy = world_.NodePolicyFor(policy->policy);
  TellSplitIgnored(node, node_policy);
  const desired::NodeDecision decision = desired::DecideNode(node, node_policy, world_.operands);
  if (decision.empty()) return forget();
  if (decision.removes_gpu) {
    if (const auto wait = WaitBeforeRemoval(key.name, *policy)) return *wait;
    base::LogInfo("the GPU of a node is gone", {{"node", key.name}});
    const std::lock_guard lock(mutex_);
    budget_.Spend(key.name, base::SteadyClock::now());
  }
  if (const base::Status patched = Patch(key.name, decision, stop); !patched) {
    const std::lock_guard lock(mutex_);
    if (decision.removes_gpu) budget_.Return(key.name);
    return base::Fail(patched.error());
  }
  return forget();
}

}  // namespace pitcrew::gpu_operator
