// Looks at an operand that has no pod on a node, or one that the node cannot start.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "api/labels.h"
#include "base/strings.h"
#include "fleet/operand_looks.h"

namespace pitcrew::fleet::look {
namespace {

const Event* FailedCreate(const OperandContext& context, std::string_view part) {
  if (context.pod != nullptr || context.daemonset == nullptr) return nullptr;
  const Event* event = context.on.cluster.FindEvent("DaemonSet", context.daemonset->key, part);
  return event != nullptr && event->reason == "FailedCreate" ? event : nullptr;
}

}  // namespace

Look NoDaemonSet(const OperandContext& context) {
  if (context.pod != nullptr || context.daemonset != nullptr) return std::nullopt;
  if (!context.on.cluster.has_read(Kind::kDaemonSets)) return std::nullopt;
  const Policy* policy = context.on.cluster.active_policy();
  std::vector<Evidence> evidence = {context.Saw("absent")};
  for (const Condition& condition : policy->conditions) {
    if (condition.type == "Error" && condition.status == "True") {
      evidence.push_back({"ClusterPolicy " + policy->name, "condition Error: " + condition.reason,
                          FirstLine(condition.message), condition.since});
    }
  }
  return Seen{.summary = fmt::format("the policy enables the {}, and its DaemonSet does not exist",
                                     context.operand.name),
              .evidence = std::move(evidence),
              .words = {},
              .since = std::nullopt};
}

Look NotSelected(const OperandContext& context) {
  if (context.pod != nullptr || context.daemonset == nullptr) return std::nullopt;
  std::string missing;
  if (HasAll(context.on.node.labels, context.daemonset->node_selector, &missing)) {
    return std::nullopt;
  }
  const std::string key = missing.substr(0, missing.find('='));
  return Seen{
      .summary = fmt::format("no DaemonSet of the {} selects this node: it lacks the label {}",
                             context.operand.name, missing),
      .evidence = {context.Saw("nodeSelector " + missing), SawLabel(context.on.node, key)},
      .words = {{"label", missing}},
      .since = std::nullopt};
}

Look Untolerated(const OperandContext& context) {
  if (context.daemonset == nullptr) return std::nullopt;
  if (context.pod != nullptr && !context.pod->deleting) return std::nullopt;
  std::vector<Toleration> tolerations = context.daemonset->tolerations;
  std::ranges::copy(DaemonSetTolerations(), std::back_inserter(tolerations));
  const Taint* taint = FirstUntolerated(context.on.node.taints, tolerations);
  if (taint == nullptr) return std::nullopt;
  return Seen{.summary = fmt::format("the {} does not tolerate the node's taint {}",
                                     context.operand.name, taint->ToString()),
              .evidence = {{"Node " + context.on.node.name, "spec.taints", taint->ToString(),
                            std::nullopt}},
              .words = {{"key", taint->key}, {"effect", taint->effect}},
              .since = std::nullopt};
}

namespace {

bool HasRuntimeClass(const Cluster& cluster, std::string_view name) {
  return std::ranges::find(cluster.runtime_classes, name, &RuntimeClass::name) !=
         cluster.runtime_classes.end();
}

}  // namespace

Look RuntimeClassMissing(const OperandContext& context) {
  if (context.pod != nullptr || context.daemonset == nullptr) return std::nullopt;
  const std::string& name = context.daemonset->runtime_class;
  const Cluster& cluster = context.on.cluster;
  if (name.empty() || !cluster.has_read(Kind::kRuntimeClasses) || HasRuntimeClass(cluster, name)) {
    return std::nullopt;
  }
  Seen seen{.summary = fmt::format("RuntimeClass {} does not exist, so no pod of the {} is made",
                                   name, context.operand.name),
            .evidence = {{"RuntimeClass " + name, "", "absent", std::nullopt}},
            .words = {{"class", name}},
            .since = std::nullopt};
  if (const Event* event = FailedCreate(context, "RuntimeClass")) {
    seen.evidence.push_back(SawEvent(*event));
    seen.since = event->last;
  }
  return seen;
}

namespace {

Look Refused(const OperandContext& context, std::string_view part, std::string_view by) {
  const Event* event = FailedCreate(context, part);
  if (event == nullptr) return std::nullopt;
  return Seen{.summary = fmt::format("{} refuses the pods of the {}", by, context.operand.name),
              .evidence = {SawEvent(*event)},
              .words = {},
              .since = event->last};
}

}  // namespace

Look RefusedByQuota(const OperandContext& context) {
  if (auto seen = Refused(context, "insufficient quota", "a ResourceQuota")) return seen;
  return Refused(context, "exceeded quota", "a ResourceQuota");
}

Look RefusedBySecurity(const OperandContext& context) {
  if (auto seen = Refused(context, "violates PodSecurity", "Pod Security Admission")) return seen;
  return Refused(context, "security context constraint", "a SecurityContextConstraints check");
}

Look RefusedByServer(const OperandContext& context) {
  return Refused(context, "", "the API server");
}

Look NotCreated(const OperandContext& context) {
  if (context.pod != nullptr || context.daemonset == nullptr) return std::nullopt;
  return Seen{
      .summary =
          fmt::format("no pod of the {} has been made for this node yet", context.operand.name),
      .evidence = {context.Saw(fmt::format("{} pods wanted, {} ready", context.daemonset->desired,
                                           context.daemonset->ready))},
      .words = {},
      .since = std::nullopt};
}

Look BeingDeleted(const OperandContext& context) {
  if (context.pod == nullptr || !context.pod->deleting) return std::nullopt;
  return Seen{.summary = fmt::format("the pod of the {} is ending", context.operand.name),
              .evidence = {context.Saw("metadata.deletionTimestamp is set")},
              .words = {},
              .since = context.pod->not_ready_since()};
}

Look Unschedulable(const OperandContext& context) {
  if (context.pod == nullptr || context.pod->unschedulable.empty()) return std::nullopt;
  return Seen{.summary = fmt::format("the pod of the {} cannot be placed on the node",
                                     context.operand.name),
              .evidence = {context.Saw(FirstLine(context.pod->unschedulable))},
              .words = {},
              .since = context.pod->not_ready_since()};
}

const Event* EventOfPod(const OperandContext& context, std::string_view reason,
                        std::string_view part = "") {
  if (context.pod == nullptr) return nullptr;
  for (const Event* event : context.on.cluster.EventsOf("Pod", context.pod->key)) {
    if (event->reason == reason && Contains(event->message, part)) return event;
  }
  return nullptr;
}

namespace {

bool NothingStarted(const OperandContext& context) {
  return context.pod != nullptr &&
         std::ranges::all_of(context.pod->containers, [](const Container& container) {
           return container.state.empty() || container.state == "waiting";
         });
}

}  // namespace

Look HandlerMissing(const OperandContext& context) {
  if (!NothingStarted(context)) return std::nullopt;
  const Event* event = EventOfPod(context, "FailedCreatePodSandBox", "no runtime for");
  if (event == nullptr) event = EventOfPod(context, "FailedCreatePodSandBox", "runtime handler");
  if (event == nullptr) return std::nullopt;
  const Pod* toolkit = context.on.PodOf(context.on.Named("container toolkit"));
  Seen seen{.summary =
                "the node's container runtime does not know the handler of the RuntimeClass: "
                "it has not been configured or not been restarted",
            .evidence = {SawEvent(*event)},
            .words = {{"class", context.pod->runtime_class}},
            .since = context.pod->not_ready_since()};
  seen.evidence.push_back({"Node " + context.on.node.name,
                           "status.nodeInfo.containerRuntimeVersion", context.on.node.runtime,
                           std::nullopt});
  if (const auto name = context.on.node.distribution(); !name.empty()) {
    seen.evidence.push_back({"Node " + context.on.node.name, "status.nodeInfo.kubeletVersion",
                             fmt::format("{}: the containerd of {}", context.on.node.kubelet, name),
                             std::nullopt});
  }
  if (toolkit != nullptr) {
    seen.evidence.push_back({"Pod " + toolkit->key.ToString(), "",
                             toolkit->ready ? "ready" : "not ready", toolkit->ready_changed});
  }
  return seen;
}

Look SandboxFailed(const OperandContext& context) {
  if (!NothingStarted(context)) return std::nullopt;
  const Event* event = EventOfPod(context, "FailedCreatePodSandBox");
  if (event == nullptr) return std::nullopt;
  return Seen{
      .summary = fmt::format("the node cannot start the pod of the {}", context.operand.name),
      .evidence = {SawEvent(*event)},
      .words = {},
      .since = context.pod->not_ready_since()};
}

Look MountFailed(const OperandContext& context) {
  if (!NothingStarted(context)) return std::nullopt;
  const Event* event = EventOfPod(context, "FailedMount");
  if (event == nullptr) return std::nullopt;
  return Seen{.summary = fmt::format("a volume of the {} cannot be mounted", context.operand.name),
              .evidence = {SawEvent(*event)},
              .words = {},
              .since = context.pod->not_ready_since()};
}

}  // namespace pitcrew::fleet::look
