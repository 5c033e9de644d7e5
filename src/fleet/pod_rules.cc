// Findings about pods of users that ask for GPUs and do not run.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "api/labels.h"
#include "api/qualification.h"
#include "base/strings.h"
#include "fleet/rules.h"
#include "kubevirt/offers.h"

namespace pitcrew::fleet {
namespace {

// Of one finding, where many nodes have the same trouble.
constexpr std::size_t kMostEvidence = 5;

Evidence Saw(const PodContext& context, std::string field, std::string text,
             Time at = std::nullopt) {
  return {"Pod " + context.pod.key.ToString(), std::move(field), std::move(text), at};
}

std::string AskedFor(const PodContext& context) {
  return fmt::format("{}: {}", context.resource, context.amount);
}

bool IsPlaced(const PodContext& context) { return !context.pod.node.empty(); }

std::int64_t Offered(const Node& node, const std::string& resource) {
  const auto found = node.allocatable.find(resource);
  return found == node.allocatable.end() ? 0 : found->second;
}

// Nodes that offer enough of the resource.
std::vector<const Node*> Offering(const PodContext& context) {
  std::vector<const Node*> nodes;
  for (const auto& [name, node] : context.cluster.nodes) {
    if (Offered(node, context.resource) >= std::max<std::int64_t>(1, context.amount)) {
      nodes.push_back(&node);
    }
  }
  return nodes;
}

std::vector<const Node*> OfferingAndSelected(const PodContext& context) {
  std::vector<const Node*> nodes = Offering(context);
  std::erase_if(nodes,
                [&](const Node* node) { return !HasAll(node->labels, context.pod.node_selector); });
  return nodes;
}

Look NoGpuRequested(const PodContext& context) {
  if (!context.pod.requests.empty()) return std::nullopt;
  return Seen{.summary =
                  "no container of the pod has a limit for a resource of nvidia.com: the pod is "
                  "given no GPU",
              .evidence = {Saw(context, "spec.containers[*].resources.limits", "no nvidia.com/*")},
              .words = {},
              .since = std::nullopt};
}

Look LimitMissing(const PodContext& context) {
  const auto found = context.pod.requests.find(context.resource);
  if (found == context.pod.requests.end() || found->second.limit) return std::nullopt;
  return Seen{
      .summary = fmt::format("the pod requests {} and has no limit for it", context.resource),
      .evidence = {Saw(context, "spec.containers[*].resources.requests", AskedFor(context))},
      .words = {{"amount", fmt::format("{}", context.amount)}},
      .since = std::nullopt};
}

// The pod in which KubeVirt runs a virtual machine.
bool RunsMachine(const PodContext& context) {
  return context.pod.owner_kind == "VirtualMachineInstance";
}

// Of nodes on which the device plugin for virtual machines runs.
std::string OfferedToMachines(const Cluster& cluster) {
  std::set<std::string> resources;
  for (const auto& [name, node] : cluster.nodes) {
    if (!kubevirt::RunsPlugin(node.Label(api::kDeploySandboxDevicePlugin))) continue;
    for (const auto& [resource, amount] : node.allocatable) {
      if (amount > 0 && !kubevirt::IsForContainers(resource)) resources.insert(resource);
    }
  }
  return resources.empty() ? "nothing yet" : base::Join({resources.begin(), resources.end()}, ", ");
}

// A container's device plugin gives no PCI address, without which virt-launcher finds no device.
Look MachineAsksForContainers(const PodContext& context) {
  if (!RunsMachine(context) || !kubevirt::IsForContainers(context.resource)) return std::nullopt;
  return Seen{.summary = fmt::format("a virtual machine asks for {}, which only containers can use",
                                     context.resource),
              .evidence = {Saw(context, "spec.containers[*].resources.limits", AskedFor(context))},
              .words = {{"offered", OfferedToMachines(context.cluster)}},
              .since = std::nullopt};
}

// What the node lacks, if it is known to lack something.
void AddNode(const PodContext& context, std::string_view name, Seen& seen) {
  const auto node = context.cluster.nodes.find(name);
  if (node == context.cluster.nodes.end()) return;
  if (const auto broken = FirstBroken(NodeContext(context.cluster, node->second, nullptr))) {
    seen.evidence.push_back({"Node " + node->first, "",
                             fmt::format("{} ({})", broken->summary, broken->id), std::nullopt});
  }
}

Look MachineResourceUnknown(const PodContext& context) {
  if (!RunsMachine(context) || IsPlaced(context) || !context.cluster.has_read(Kind::kNodes)) {
    return std::nullopt;
  }
  const bool known = std::ranges::any_of(context.cluster.nodes, [&](const auto& entry) {
    const auto found = entry.second.capacity.find(context.resource);
    return found != entry.second.capacity.end() && found->second > 0;
  });
  if (known) return std::nullopt;
  const auto offered = OfferedToMachines(context.cluster);
  Seen seen{.summary = fmt::format("no node offers {} to virtual machines", context.resource),
            .evidence = {Saw(context, "spec.containers[*].resources.limits", AskedFor(context)),
                         {"all Nodes", "status.capacity", "to virtual machines: " + offered,
                          std::nullopt}},
            .words = {{"offered", offered}},
            .since = std::nullopt};
  // The IOMMU is off, the driver is still bound: nodes that are to offer it, and do not yet.
  for (const auto& [name, node] : context.cluster.nodes) {
    const NodeContext on(context.cluster, node, nullptr);
    if (seen.evidence.size() >= kMostEvidence) break;
    if (on.workload != Workload::kContainer) AddNode(context, name, seen);
  }
  return seen;
}

Look RefusedByNode(const PodContext& context) {
  if (context.pod.phase != "Failed" || (context.pod.reason != "UnexpectedAdmissionError" &&
                                        !context.pod.reason.starts_with("OutOf"))) {
    return std::nullopt;
  }
  return Seen{
      .summary = fmt::format("the kubelet of {} refused the pod: its GPUs were gone or taken "
                             "when it arrived",
                             context.pod.node),
      .evidence = {Saw(context, "status.reason: " + context.pod.reason,
                       FirstLine(context.pod.message))},
      .words = {{"node", context.pod.node}},
      .since = std::nullopt};
}

Look ResourceUnknown(const PodContext& context) {
  if (IsPlaced(context) || !context.cluster.has_read(Kind::kNodes)) return std::nullopt;
  std::set<std::string> others;
  for (const auto& [name, node] : context.cluster.nodes) {
    for (const auto& [resource, amount] : node.capacity) {
      if (resource == context.resource && amount > 0) return std::nullopt;
      if (amount > 0) others.insert(resource);
    }
  }
  const std::string offered =
      others.empty() ? "nothing of nvidia.com"
                     : base::Join(std::vector<std::string>(others.begin(), others.end()), ", ");
  return Seen{.summary = fmt::format("no node offers the resource {}", context.resource),
              .evidence = {Saw(context, "spec.containers[*].resources.limits", AskedFor(context)),
                           {"all Nodes", "status.capacity", offered, std::nullopt}},
              .words = {{"offered", offered}},
              .since = std::nullopt};
}

Look TooMany(const PodContext& context) {
  if (IsPlaced(context) || !context.cluster.has_read(Kind::kNodes)) return std::nullopt;
  const Node* largest = nullptr;
  std::int64_t most = 0;
  for (const auto& [name, node] : context.cluster.nodes) {
    const auto found = node.capacity.find(context.resource);
    if (found == node.capacity.end() || found->second <= most) continue;
    most = found->second;
    largest = &node;
  }
  if (largest == nullptr || context.amount <= most) return std::nullopt;
  return Seen{.summary = fmt::format("the pod wants {} {}, and no node has more than {}",
                                     context.amount, context.resource, most),
              .evidence = {Saw(context, "spec.containers[*].resources.limits", AskedFor(context)),
                           {"Node " + largest->name, "status.capacity[" + context.resource + "]",
                            fmt::format("{}", most), std::nullopt}},
              .words = {{"most", fmt::format("{}", most)}},
              .since = std::nullopt};
}

Look SelectorUnmatched(const PodContext& context) {
  if (IsPlaced(context) || context.pod.node_selector.empty() ||
      !context.cluster.has_read(Kind::kNodes)) {
    return std::nullopt;
  }
  for (const auto& pair : context.pod.node_selector) {
    const bool known = std::ranges::any_of(context.cluster.nodes, [&](const auto& entry) {
      return HasAll(entry.second.labels, {pair});
    });
    if (known) continue;
    std::set<std::string> values;
    for (const auto& [name, node] : context.cluster.nodes) {
      if (const auto value = node.Label(pair.first); !value.empty()) values.emplace(value);
    }
    return Seen{
        .summary = fmt::format("the pod selects nodes with the label {}={}, which no node has",
                               pair.first, pair.second),
        .evidence = {Saw(context, "spec.nodeSelector", pair.first + "=" + pair.second),
                     {"all Nodes", "label " + pair.first,
                      values.empty()
                          ? "absent"
                          : "values: " + base::Join({values.begin(), values.end()}, ", "),
                      std::nullopt}},
        .words = {{"key", pair.first}},
        .since = std::nullopt};
  }
  if (Offering(context).empty() || !OfferingAndSelected(context).empty()) return std::nullopt;
  return Seen{.summary = fmt::format("no node that the pod selects offers {} {}", context.amount,
                                     context.resource),
              .evidence = {Saw(context, "spec.nodeSelector",
                               fmt::format("{}={}", context.pod.node_selector.begin()->first,
                                           context.pod.node_selector.begin()->second)),
                           {fmt::format("{} Nodes", Offering(context).size()),
                            "status.allocatable[" + context.resource + "]",
                            "enough, and not selected", std::nullopt}},
              .words = {{"key", context.pod.node_selector.begin()->first}},
              .since = std::nullopt};
}

// Taints of all nodes that the pod could be placed on.
struct Repelled {
  const Taint* taint = nullptr;  // of the first of them
  const Node* first = nullptr;
  std::size_t nodes = 0;
};

// None where a node would take the pod.
std::optional<Repelled> RepelledBy(const PodContext& context) {
  if (IsPlaced(context)) return std::nullopt;
  Repelled all;
  for (const Node* node : OfferingAndSelected(context)) {
    const Taint* one = FirstUntolerated(node->taints, context.pod.tolerations);
    if (one == nullptr) return std::nullopt;
    ++all.nodes;
    if (all.taint != nullptr) continue;
    all.taint = one;
    all.first = node;
  }
  // A cordoned node has a taint too; that is another finding.
  if (all.taint == nullptr || all.taint->key == "node.kubernetes.io/unschedulable") {
    return std::nullopt;
  }
  return all;
}

Evidence SawTaint(const Repelled& by) {
  return {"Node " + by.first->name, "spec.taints", by.taint->ToString(), std::nullopt};
}

Look NodesNotQualified(const PodContext& context) {
  const auto by = RepelledBy(context);
  if (!by || !api::IsNotQualifiedTaint(by->taint->key, by->taint->effect)) return std::nullopt;
  const std::string_view state = by->first->Label(api::kQualification);
  return Seen{.summary = fmt::format("the nodes that offer {} take no pods before their GPUs have "
                                     "passed the qualification",
                                     context.resource),
              .evidence = {SawTaint(*by),
                           {"Node " + by->first->name, fmt::format("label {}", api::kQualification),
                            state.empty() ? "absent" : std::string(state), std::nullopt}},
              .words = {{"node", by->first->name}},
              .since = std::nullopt};
}

Look TaintNotTolerated(const PodContext& context) {
  const auto by = RepelledBy(context);
  if (!by) return std::nullopt;
  return Seen{
      .summary = fmt::format("the pod does not tolerate the taint {} of the nodes that offer {}",
                             by->taint->ToString(), context.resource),
      .evidence = {SawTaint(*by),
                   Saw(context, "spec.tolerations",
                       fmt::format("none for it ({} nodes have such taints)", by->nodes))},
      .words = {{"key", by->taint->key}, {"effect", by->taint->effect}},
      .since = std::nullopt};
}

Look AllCordoned(const PodContext& context) {
  if (IsPlaced(context)) return std::nullopt;
  const auto nodes = OfferingAndSelected(context);
  if (nodes.empty() ||
      !std::ranges::all_of(nodes, [](const Node* node) { return node->unschedulable; })) {
    return std::nullopt;
  }
  return Seen{
      .summary = fmt::format("every node that offers {} is cordoned", context.resource),
      .evidence = {{"Node " + nodes.front()->name, "spec.unschedulable", "true", std::nullopt}},
      .words = {{"node", nodes.front()->name}},
      .since = std::nullopt};
}

Look AllBusy(const PodContext& context) {
  if (!Contains(context.pod.unschedulable, "Insufficient " + context.resource)) return std::nullopt;
  return Seen{
      .summary = fmt::format("no node has {} {} free: other pods use them", context.amount,
                             context.resource),
      .evidence = {Saw(context, "condition PodScheduled: " + context.pod.unschedulable_reason,
                       FirstLine(context.pod.unschedulable))},
      .words = {},
      .since = std::nullopt};
}

Look NotPlaced(const PodContext& context) {
  if (context.pod.unschedulable.empty()) return std::nullopt;
  return Seen{
      .summary = "the scheduler finds no node for the pod",
      .evidence = {Saw(context, "condition PodScheduled: " + context.pod.unschedulable_reason,
                       FirstLine(context.pod.unschedulable))},
      .words = {},
      .since = std::nullopt};
}

Look HandlerMissing(const PodContext& context) {
  const Event* event = context.cluster.FindEvent("Pod", context.pod.key, "no runtime for");
  if (event == nullptr) return std::nullopt;
  return Seen{.summary = fmt::format("the container runtime of {} does not know the handler of "
                                     "RuntimeClass {}",
                                     context.pod.node, context.pod.runtime_class),
              .evidence = {SawEvent(*event)},
              .words = {{"node", context.pod.node}},
              .since = std::nullopt};
}

Look NotInjected(const PodContext& context) {
  static constexpr std::array<std::string_view, 6> kWords = {
      "cdi", "nvidia-container", "could not select device driver", "nvml", "nvidia-ctk", "libcuda"};
  for (const Container& container : context.pod.containers) {
    for (const std::string* text : {&container.message, &container.last_message}) {
      if (!ContainsAny(base::ToLower(*text), kWords)) continue;
      return Seen{.summary = "the GPU could not be put into the container",
                  .evidence = {Saw(context, "container " + container.name, FirstLine(*text))},
                  .words = {{"node", context.pod.node}},
                  .since = std::nullopt};
    }
  }
  return std::nullopt;
}

// Its program runs and ends, again and again or for good. Whether a GPU is the cause, only its own
// words can tell.
Look Crashes(const PodContext& context) {
  for (const Container& container : context.pod.containers) {
    const bool ended = container.state == "terminated" && container.exit_code != 0;
    const bool again = container.state == "waiting" && container.reason == "CrashLoopBackOff";
    const bool before = container.restarts > 0 && container.last_exit_code != 0 &&
                        !container.ready && container.state == "running" && !container.started;
    if (!ended && !again && !before) continue;
    const std::int64_t code = ended ? container.exit_code : container.last_exit_code;
    std::string said = FirstLine(ended ? container.message : container.last_message);
    const std::string reason = ended ? container.reason : container.last_reason;
    Seen seen{.summary = fmt::format("container {} has its GPU and ends with exit code {}{}",
                                     container.name, code,
                                     container.restarts > 0 ? ", again and again" : ""),
              .evidence = {Saw(
                  context, "container " + container.name,
                  fmt::format("{}{} restarts: {}", reason.empty() ? "" : reason + ", ",
                              container.restarts, said.empty() ? "it has left no message" : said),
                  ended ? container.since : container.last_finished)},
              .words = {{"container", container.name},
                        {"node", context.pod.node},
                        {"previous", again || before ? " --previous" : ""}},
              .since = context.pod.not_ready_since()};
    AddNode(context, context.pod.node, seen);
    return seen;
  }
  return std::nullopt;
}

// What keeps a container from starting before a GPU matters.
Look NotStarted(const PodContext& context) {
  for (const Container& container : context.pod.containers) {
    if (!PullFails(container) && container.reason != "CreateContainerConfigError") continue;
    return Seen{
        .summary = fmt::format("the pod has its GPU and does not run: {}", container.reason),
        .evidence = {Saw(
            context, "container " + container.name,
            FirstLine(PullFails(container) ? PullMessage(context.cluster, context.pod, container)
                                           : container.message))},
        .words = {{"container", container.name}},
        .since = std::nullopt};
  }
  return std::nullopt;
}

Look OtherTrouble(const PodContext& context) {
  for (const Container& container : context.pod.containers) {
    if (container.ready || container.ended_well() || container.reason.empty() ||
        container.reason == "PodInitializing" || container.reason == "ContainerCreating") {
      continue;
    }
    const std::string said = container.message.empty() ? container.last_message : container.message;
    return Seen{
        .summary = fmt::format("the pod has its GPU and does not run: {}", container.reason),
        .evidence = {Saw(context, "container " + container.name,
                         said.empty() ? container.reason : FirstLine(said))},
        .words = {{"container", container.name}},
        .since = std::nullopt};
  }
  return std::nullopt;
}

constexpr PodRule kPodRules[] = {
    {"gpu-not-requested", NoGpuRequested,
     "Give one of its containers a limit: resources: {limits: {nvidia.com/gpu: 1}}"},
    {"request-without-limit", LimitMissing,
     "Write it as a limit, from which the request follows: resources: {limits: {{resource}: "
     "{amount}}}"},
    {"pod-refused-by-node", RefusedByNode,
     "Delete the pod, so that its controller makes another, and see whether the node is well:\n"
     "$ kubectl delete pod -n {namespace} {pod}\n"
     "$ pitcrew doctor {node}"},
    {"machine-asks-for-container-gpu", MachineAsksForContainers,
     "Name a resource for virtual machines as deviceName of the machine's gpus. Nodes offer: "
     "{offered}. A whole machine is printed by:\n"
     "$ kubectl pitcrew vm NAME"},
    {"machine-gpu-not-offered", MachineResourceUnknown,
     "Nodes offer to virtual machines: {offered}. A node whose label "
     "nvidia.com/gpu.workload.config is vm-passthrough offers whole GPUs, one with vm-vgpu vGPUs; "
     "when the names are right, see what its operands lack:\n"
     "$ pitcrew status"},
    {"resource-not-offered", ResourceUnknown,
     "Ask for what is offered: {offered}. Sharing with renameByDefault offers "
     "nvidia.com/gpu.shared, the MIG strategy mixed nvidia.com/mig-...; other strategies offer "
     "nvidia.com/gpu. When nothing is offered, pitcrew doctor names what is wrong with the nodes."},
    {"more-gpus-than-a-node-has", TooMany,
     "Ask for {most} at most, and spread the work over several pods."},
    {"node-selector-unmatched", SelectorUnmatched,
     "Correct the selector. What nodes have:\n"
     "$ kubectl get nodes -L {key}"},
    {"pod-waits-for-qualification", NodesNotQualified,
     "It is placed when they pass. What the tests say:\n"
     "$ pitcrew doctor {node}"},
    {"pod-taint-not-tolerated", TaintNotTolerated,
     "Add to the spec of the pod: tolerations: [{key: \"{key}\", operator: Exists, effect: "
     "{effect}}]"},
    {"gpu-nodes-cordoned", AllCordoned,
     "When the work on it is done:\n"
     "$ kubectl uncordon {node}"},
    {"gpus-busy", AllBusy,
     "Wait, add nodes, or share GPUs (spec.devicePlugin.config with timeSlicing). What a node has "
     "given away:\n"
     "$ kubectl describe node NODE"},
    {"pod-not-placed", NotPlaced,
     "The message is the scheduler's.\n"
     "$ kubectl describe pod -n {namespace} {pod}"},
    {"pod-runtime-handler-missing", HandlerMissing,
     "See what the container toolkit did there:\n"
     "$ pitcrew doctor {node}"},
    {"gpu-not-injected", NotInjected,
     "The device plugin and the container toolkit write the files of /var/run/cdi on {node}; start "
     "the plugin there again if one is missing.\n"
     "$ pitcrew doctor {node}"},
    {"pod-crashes", Crashes,
     "Whether the GPU is the cause, its log tells (CUDA error, NVML, Xid, out of memory); whether "
     "other pods on the node have the same trouble, the node does:\n"
     "$ kubectl logs -n {namespace} {pod} -c {container}{previous}\n"
     "$ pitcrew doctor {node}"},
    {"pod-not-started", NotStarted,
     "The container cannot be made, whatever the GPU does: its image, or a ConfigMap or Secret "
     "that "
     "it refers to, is missing.\n"
     "$ kubectl describe pod -n {namespace} {pod}"},
    {"pod-not-running", OtherTrouble,
     "The message is the container runtime's or the kubelet's.\n"
     "$ kubectl describe pod -n {namespace} {pod}"},
};

}  // namespace

std::span<const PodRule> PodRules() { return kPodRules; }

}  // namespace pitcrew::fleet
