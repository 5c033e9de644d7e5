// Findings about a node itself: its kubelet, its labels, its kernel, what it offers.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "api/labels.h"
#include "api/upgrade_state.h"
#include "base/strings.h"
#include "desired/node_labels.h"
#include "fleet/operand_looks.h"
#include "fleet/rules.h"

namespace pitcrew::fleet {
namespace {

// By whichever component changes something; in place of "true", or appended to another value.
bool IsPaused(std::string_view value) { return Contains(value, "paused-for-"); }

Look NodeNotReady(const NodeContext& context) {
  const Node& node = context.node;
  if (node.ready.empty() || node.ready == "True") return std::nullopt;
  return Seen{.summary = node.ready == "Unknown" ? "the kubelet has stopped reporting"
                                                 : "the kubelet says that the node is not ready",
              .evidence = {{"Node " + node.name, "condition Ready: " + node.ready_reason,
                            FirstLine(node.ready_message), node.ready_since}},
              .words = {},
              .since = node.ready_since};
}

Look NoDiscovery(const NodeContext& context) {
  if (context.node.is_discovered()) return std::nullopt;
  Seen seen{.summary =
                "node feature discovery has not labelled this node: whether it has a GPU is "
                "not known",
            .evidence = {{"Node " + context.node.name, "labels feature.node.kubernetes.io/*",
                          "absent", std::nullopt}},
            .words = {},
            .since = context.node.created};
  if (!context.cluster.has_read(Kind::kOperandPods)) return seen;
  const Pod* worker = context.DiscoveryWorker();
  if (worker == nullptr) {
    seen.evidence.push_back({"namespace " + context.cluster.name_space,
                             "pod of node-feature-discovery-worker on this node", "absent",
                             std::nullopt});
    if (!context.node.taints.empty()) {
      seen.evidence.push_back({"Node " + context.node.name, "spec.taints",
                               context.node.taints.front().ToString(), std::nullopt});
    }
    return seen;
  }
  std::string state = worker->ready ? "ready" : worker->phase;
  for (const Container& container : worker->containers) {
    if (!container.reason.empty())
      state = fmt::format("{}: {}", container.reason, FirstLine(container.message));
  }
  seen.evidence.push_back({"Pod " + worker->key.ToString(), "", state, worker->ready_changed});
  return seen;
}

Look GpuNotDetected(const NodeContext& context) {
  if (context.node.has_gpu_pci_label()) return std::nullopt;
  Seen seen{
      .summary = "node feature discovery runs here and has found no NVIDIA GPU on the PCI bus",
      .evidence = {SawLabel(context.node, api::kPciVendorPresent)},
      .words = {},
      .since = std::nullopt};
  if (context.node.labels.contains(api::kGpuPresent)) {
    seen.evidence.push_back(SawLabel(context.node, api::kGpuPresent));
  }
  if (const Features* features = context.features(); features != nullptr && features->gpus) {
    seen.evidence.push_back(
        {fmt::format("NodeFeature {}/{}", context.cluster.name_space, context.node.name),
         "features.instances[pci.device]", fmt::format("{} GPUs of vendor 10de", *features->gpus),
         std::nullopt});
    if (*features->gpus > 0) {
      seen.summary =
          "node feature discovery sees GPUs on the PCI bus and does not label the node so";
    }
  }
  return seen;
}

Look PolicyMissing(const NodeContext& context) {
  if (context.policy != nullptr || !context.cluster.has_read(Kind::kPolicies)) return std::nullopt;
  return Seen{.summary = "there is no ClusterPolicy, so nothing is deployed on the node",
              .evidence = {{"ClusterPolicy", "", "absent", std::nullopt}},
              .words = {},
              .since = std::nullopt};
}

Look OperandsDisabled(const NodeContext& context) {
  if (context.node.Label(api::kDeployOperands) != "false") return std::nullopt;
  return Seen{.summary = "somebody keeps all operands off this node by a label",
              .evidence = {SawLabel(context.node, api::kDeployOperands)},
              .words = {{"label", std::string(api::kDeployOperands)}},
              .since = std::nullopt};
}

Look NotLabelled(const NodeContext& context) {
  if (context.policy == nullptr) return std::nullopt;
  std::string_view missing;
  if (context.node.Label(api::kGpuPresent) != "true") missing = api::kGpuPresent;
  for (const Operand& operand : context.cluster.operands()) {
    if (!missing.empty()) break;
    // Some come only once feature discovery has told what the GPU can do.
    if (context.Wants(operand) && operand.deploy.only_on == nullptr &&
        context.node.Label(operand.deploy.key).empty()) {
      missing = operand.deploy.key;
    }
  }
  if (missing.empty()) return std::nullopt;
  Seen seen{
      .summary = fmt::format("the operator has not labelled the node: {} is missing", missing),
      .evidence = {SawLabel(context.node, missing)},
      .words = {},
      .since = std::nullopt};
  if (!context.cluster.has_read(Kind::kOperandPods)) return seen;
  bool there = false;
  for (const auto& [key, pod] : context.cluster.pods) {
    if (pod.app != "gpu-operator" || key.name_space != context.cluster.name_space) continue;
    there = true;
    seen.evidence.push_back(
        {"Pod " + key.ToString(), "", pod.ready ? "ready" : "not ready", pod.ready_changed});
  }
  if (!there) {
    seen.evidence.push_back({"Pod of the operator (label app=gpu-operator)",
                             "namespace " + context.cluster.name_space, "absent", std::nullopt});
  }
  return seen;
}

Look LabelOverridden(const NodeContext& context) {
  for (const Operand& operand : context.cluster.operands()) {
    const std::string_view value = context.node.Label(operand.deploy.key);
    if (!context.Wants(operand) || value.empty() || operand.deploy.IsOwn(value) ||
        IsPaused(value)) {
      continue;
    }
    if (operand.deploy.key == api::kDeployDriver &&
        (value == api::kPreInstalled || value == "false")) {
      continue;
    }
    return Seen{
        .summary = fmt::format("somebody keeps the {} off this node by a label", operand.name),
        .evidence = {SawLabel(context.node, operand.deploy.key)},
        .words = {{"label", std::string(operand.deploy.key)}},
        .since = std::nullopt};
  }
  return std::nullopt;
}

Look OsLabelsMissing(const NodeContext& context) {
  if (context.policy == nullptr || !context.policy->driver_enabled() || context.has_host_driver() ||
      context.workload == Workload::kPassthrough) {
    return std::nullopt;
  }
  std::vector<std::string_view> keys = {api::kOsReleaseId, api::kOsReleaseVersionId};
  if (context.policy->driver.use_precompiled) keys.push_back(api::kKernelVersionFull);
  for (const std::string_view key : keys) {
    if (!context.node.Label(key).empty()) continue;
    return Seen{.summary = fmt::format(
                    "the driver's image is chosen by a label that the node lacks: {}", key),
                .evidence = {SawLabel(context.node, key)},
                .words = {},
                .since = std::nullopt};
  }
  return std::nullopt;
}

Look WorkloadUnknown(const NodeContext& context) {
  const std::string_view value = context.node.Label(api::kWorkloadConfig);
  if (context.policy == nullptr || !desired::IsUnknownWorkload(value)) return std::nullopt;
  return Seen{
      .summary = fmt::format("the node's workload \"{}\" is none of container, vm-passthrough, "
                             "vm-vgpu; it is taken for {}",
                             value, ToString(context.workload)),
      .evidence = {SawLabel(context.node, api::kWorkloadConfig)},
      .words = {},
      .since = std::nullopt};
}

Look WorkloadIgnored(const NodeContext& context) {
  const std::string_view value = context.node.Label(api::kWorkloadConfig);
  if (context.policy == nullptr || context.policy->sandbox.enabled) return std::nullopt;
  if (value != "vm-passthrough" && value != "vm-vgpu") return std::nullopt;
  return Seen{
      .summary = fmt::format("the node is labelled for {}, and the policy has sandbox workloads "
                             "switched off: it is set up for containers",
                             value),
      .evidence = {SawLabel(context.node, api::kWorkloadConfig),
                   {"ClusterPolicy " + context.cluster.active_policy()->name,
                    "spec.sandboxWorkloads.enabled", "false", std::nullopt}},
      .words = {},
      .since = std::nullopt};
}

Evidence SawMachineGpus(const NodeContext& context) {
  return {"Node " + context.node.name, fmt::format("annotation {}", desired::kMachineGpus),
          fmt::format("\"{}\"", Get(context.node.annotations, desired::kMachineGpus)),
          std::nullopt};
}

Look SplitIgnored(const NodeContext& context) {
  if (context.policy == nullptr || Get(context.node.annotations, desired::kMachineGpus).empty()) {
    return std::nullopt;
  }
  const auto why = desired::WhyNotDivided({.sandbox_enabled = context.policy->sandbox.enabled,
                                           .workload = context.workload,
                                           .driver_enabled = context.policy->driver_enabled(),
                                           .driver_label = context.node.Label(api::kDeployDriver)});
  if (why.empty()) return std::nullopt;
  return Seen{
      .summary = fmt::format("no GPU of the node is set apart for virtual machines: {}", why),
      .evidence = {SawMachineGpus(context)},
      .words = {},
      .since = std::nullopt};
}

// What the driver's newest pod was told is what stands.
Look SplitRefused(const NodeContext& context) {
  if (Get(context.node.annotations, desired::kMachineGpus).empty()) return std::nullopt;
  const Pod* pod = context.PodOf(context.Named("driver"));
  for (const Event* event : context.cluster.EventsOf("Node", {"", context.node.name})) {
    if (event->reason != "GpuSplitRefused") continue;
    if (pod != nullptr && pod->created && event->last && *event->last < *pod->created) break;
    return Seen{.summary = "the node's GPUs are not divided as its annotation says",
                .evidence = {SawEvent(*event), SawMachineGpus(context)},
                .words = {},
                .since = event->last};
  }
  return std::nullopt;
}

// The last thing that the upgrade has told about the node and that is no mere step of it.
const Event* UpgradeTrouble(const NodeContext& context) {
  for (const Event* event : context.cluster.EventsOf("Node", {"", context.node.name})) {
    if (event->reason == "GPUDriverUpgrade" && !event->message.starts_with("Success") &&
        !event->message.starts_with("Scheduling")) {
      return event;
    }
  }
  return nullptr;
}

Look UpgradeFailed(const NodeContext& context) {
  if (context.node.Label(api::kUpgradeState) != "upgrade-failed") return std::nullopt;
  Seen seen{.summary = "the driver upgrade of this node has failed",
            .evidence = {SawLabel(context.node, api::kUpgradeState)},
            .words = {},
            .since = std::nullopt};
  if (const Event* event = UpgradeTrouble(context)) {
    seen.evidence.push_back(SawEvent(*event));
    seen.since = event->last;
  }
  return seen;
}

// What a node in the state waits for.
std::string_view UpgradeWaitsFor(api::UpgradeState state) {
  switch (state) {
    case api::UpgradeState::kWaitForJobsRequired:
      return "it waits until the jobs of spec.driver.upgradePolicy.waitForCompletion have ended";
    case api::UpgradeState::kPodDeletionRequired:
      return "it waits until the pods that use its GPUs have gone";
    case api::UpgradeState::kDrainRequired:
      return "it waits until its pods have gone";
    case api::UpgradeState::kPodRestartRequired:
      return "it waits for the driver's new pod";
    case api::UpgradeState::kValidationRequired:
      return "it waits until the validator has found the new driver in order";
    case api::UpgradeState::kNodeMaintenanceRequired:
    case api::UpgradeState::kPostMaintenanceRequired:
      return "it waits for a maintenance operator, which Pitcrew does not ask: take the label away";
    default:
      return "the operator is about to go on";
  }
}

Look UpgradeRuns(const NodeContext& context) {
  const std::string_view label = context.node.Label(api::kUpgradeState);
  const api::UpgradeState state = api::UpgradeStateNamed(label);
  // "upgrade-required" only queues: the old driver still works.
  if (!api::IsUnderWay(state) && state != api::UpgradeState::kOther) return std::nullopt;
  if (state == api::UpgradeState::kPodRestartRequired) {
    // Why the new driver is not ready its own pod tells.
    const Pod* pod = context.PodOf(context.Named("driver"));
    if (pod != nullptr && !pod->ready) return std::nullopt;
  }
  Seen seen{.summary = fmt::format("the driver of this node is being upgraded: {}", label),
            .evidence = {SawLabel(context.node, api::kUpgradeState)},
            .words = {{"waits", std::string(UpgradeWaitsFor(state))}},
            .since = std::nullopt};
  if (const Event* event = UpgradeTrouble(context)) seen.evidence.push_back(SawEvent(*event));
  return seen;
}

Look OperandsPaused(const NodeContext& context) {
  for (const Operand& operand : context.cluster.operands()) {
    const std::string_view value = context.node.Label(operand.deploy.key);
    if (!context.Wants(operand) || !IsPaused(value) || value.ends_with(api::kPausedForMigChange))
      continue;
    return Seen{
        .summary = fmt::format("the {} is paused while the driver is changed", operand.name),
        .evidence = {SawLabel(context.node, operand.deploy.key)},
        .words = {{"label", std::string(operand.deploy.key)}},
        .since = std::nullopt};
  }
  return std::nullopt;
}

// The pod and container that waits for the driver, of toolkit or validator.
const Container* DriverValidation(const NodeContext& context, const Pod** of) {
  for (const char* name : {"validator", "container toolkit"}) {
    const Pod* pod = context.PodOf(context.Named(name));
    if (pod == nullptr || pod->ready) continue;
    for (const Container& container : pod->containers) {
      if (container.name != "driver-validation" || container.ended_well()) continue;
      if (container.state.empty() || container.reason == "PodInitializing") continue;
      if (PullFails(container)) continue;  // it has not looked at any driver
      *of = pod;
      return &container;
    }
  }
  return nullptr;
}

Look NouveauLoaded(const NodeContext& context) {
  const Pod* pod = nullptr;
  if (DriverValidation(context, &pod) == nullptr) return std::nullopt;
  const Features* features = context.features();
  if (features == nullptr || !features->modules ||
      std::ranges::find(*features->modules, "nouveau") == features->modules->end()) {
    return std::nullopt;
  }
  return Seen{
      .summary = "the kernel module nouveau holds the GPUs",
      .evidence = {{fmt::format("NodeFeature {}/{}", context.cluster.name_space, context.node.name),
                    "features.flags[kernel.loadedmodule]", "nouveau", std::nullopt}},
      .words = {},
      .since = pod->not_ready_since()};
}

Evidence SawDriverValidation(const NodeContext& context, const Pod& pod,
                             const Container& container) {
  const std::string said = LastLineOf(context.Log({pod.key, container.name, false}));
  return {"Pod " + pod.key.ToString(), "container " + container.name,
          said.empty() ? container.state + (container.reason.empty() ? "" : " " + container.reason)
                       : said,
          container.since};
}

Evidence SawModules(const NodeContext& context) {
  const Features* features = context.features();
  const bool loaded = features != nullptr && features->modules &&
                      std::ranges::find(*features->modules, "nvidia") != features->modules->end();
  return {fmt::format("NodeFeature {}/{}", context.cluster.name_space, context.node.name),
          "features.flags[kernel.loadedmodule]",
          features == nullptr || !features->modules ? "not read"
          : loaded                                  ? "nvidia is loaded"
                                                    : "nvidia is not loaded",
          std::nullopt};
}

Look HostDriverMissing(const NodeContext& context) {
  if (!context.has_host_driver() && context.node.Label(api::kDeployDriver) != "false") {
    return std::nullopt;
  }
  const Pod* pod = nullptr;
  const Container* container = DriverValidation(context, &pod);
  if (container == nullptr) return std::nullopt;
  Seen seen{.summary = "the node is to bring its own driver, and no working one is found on it",
            .evidence = {SawDriverValidation(context, *pod, *container), SawModules(context)},
            .words = {},
            .since = container->since};
  if (context.policy->driver_enabled()) {
    seen.evidence.push_back(SawLabel(context.node, api::kDeployDriver));
  } else {
    seen.evidence.push_back({"ClusterPolicy " + context.cluster.active_policy()->name,
                             "spec.driver.enabled", "false", std::nullopt});
  }
  return seen;
}

Look DriverNotValid(const NodeContext& context) {
  const Pod* pod = nullptr;
  const Container* container = DriverValidation(context, &pod);
  if (container == nullptr) return std::nullopt;
  return Seen{.summary = "the driver's pod is ready, and the driver does not answer",
              .evidence = {SawDriverValidation(context, *pod, *container), SawModules(context)},
              .words = {{"pod", pod->key.name}},
              .since = container->since};
}

constexpr NodeRule kNodeRules[] = {
    {"node-not-ready", Stage::kNode, NodeNotReady,
     "This is no matter of GPUs. On {node}: systemctl status kubelet; journalctl -u kubelet -e"},
    {"nfd-not-running", Stage::kPciDevice, NoDiscovery,
     "Let the worker of node feature discovery run on {node}: nfd.enabled of the chart, the "
     "tolerations of the worker (node-feature-discovery.worker.tolerations), or your own "
     "installation of it.\n"
     "$ kubectl get pods -A -l role=worker -o wide"},
    {"gpu-not-detected", Stage::kPciDevice, GpuNotDetected,
     "On {node}, lspci -d 10de: shows what the kernel sees. Nothing there: the GPU is not seated, "
     "is switched off, or is not passed to this virtual machine. If it is there, the configuration "
     "of the worker of node feature discovery must let PCI classes 03 and the vendor through "
     "(sources.pci: deviceClassWhitelist, deviceLabelFields: [vendor])."},
    {"policy-missing", Stage::kLabels, PolicyMissing,
     "Create one: clusterPolicy.deployCR=true of the chart, or your own with kubectl apply."},
    {"operands-disabled", Stage::kLabels, OperandsDisabled,
     "If that is no longer wanted:\n"
     "$ kubectl label node {node} {label}-"},
    {"node-not-labelled", Stage::kLabels, NotLabelled,
     "See what the operator does:\n"
     "$ kubectl logs -n {namespace} deployment/gpu-operator"},
    {"deploy-label-overridden", Stage::kLabels, LabelOverridden,
     "If that is no longer wanted:\n"
     "$ kubectl label node {node} {label}=true --overwrite"},
    {"os-labels-missing", Stage::kLabels, OsLabelsMissing,
     "The worker of node feature discovery reads it from /etc/os-release of the node: its sources "
     "\"system\" and \"kernel\" must be on, and the files of the host mounted.\n"
     "$ kubectl logs -n {namespace} {worker-pod}"},
    {"workload-unknown", Stage::kWorkload, WorkloadUnknown,
     "Choose container, vm-passthrough or vm-vgpu:\n"
     "$ kubectl label node {node} nvidia.com/gpu.workload.config=container --overwrite"},
    {"workload-ignored", Stage::kWorkload, WorkloadIgnored,
     "Set spec.sandboxWorkloads.enabled: true in ClusterPolicy {policy}, or take the label away:\n"
     "$ kubectl label node {node} nvidia.com/gpu.workload.config-"},
    {"gpu-split-ignored", Stage::kWorkload, SplitIgnored,
     "Take the annotation away, or what stands in its way; it is for nodes for containers, with "
     "spec.sandboxWorkloads.enabled: true and the operator's driver:\n"
     "$ kubectl annotate node {node} nvidia.com/gpu-operator.gpus-for-virtual-machines-"},
    {"gpu-split-refused", Stage::kWorkload, SplitRefused,
     "Correct the list of PCI addresses, then start the node's driver anew; pods with GPUs leave "
     "for that:\n"
     "$ kubectl annotate node {node} --overwrite "
     "nvidia.com/gpu-operator.gpus-for-virtual-machines=ADDRESS,...\n"
     "$ kubectl delete pod -n {namespace} {driver-pod}"},
    {"driver-upgrade-failed", Stage::kDriver, UpgradeFailed,
     "The operator goes on by itself when the driver's pod is of the newest version and ready and "
     "the "
     "validator agrees, and begins again with another version of the driver. When what stood in "
     "the "
     "way is gone, the same can be tried once more:\n"
     "$ kubectl label node {node} nvidia.com/gpu-driver-upgrade-state=upgrade-required "
     "--overwrite"},
    {"driver-upgrade-running", Stage::kDriver, UpgradeRuns,
     "This passes: {waits}. Time limits are under spec.driver.upgradePolicy.\n"
     "$ kubectl describe node {node}"},
    {"operands-paused", Stage::kDriver, OperandsPaused,
     "The driver manager sets the label back when it is done. When none runs on {node} any more:\n"
     "$ kubectl label node {node} {label}=true --overwrite"},
    {"nouveau-active", Stage::kModule, NouveauLoaded,
     "On {node}: echo 'blacklist nouveau' > /etc/modprobe.d/nouveau.conf, rebuild the initial RAM "
     "disk (update-initramfs -u or dracut -f), and restart the node."},
    {"host-driver-missing", Stage::kModule, HostDriverMissing,
     "Install a driver on {node} (nvidia-smi must work there), or let the operator bring it: "
     "spec.driver.enabled: true, and no label nvidia.com/gpu.deploy.driver that says otherwise."},
    {"driver-not-valid", Stage::kModule, DriverNotValid,
     "On {node}: dmesg | grep -i -e nvrm -e xid; lsmod | grep nvidia. Then start the pod of the "
     "driver again:\n"
     "$ kubectl delete pod -n {namespace} {driver-pod}"},
    {"gpus-not-qualified", Stage::kValidation, look::NotQualified, look::kNotQualifiedFix},
};

}  // namespace

std::span<const NodeRule> NodeRules() {
  static const std::vector<NodeRule> kAll = [] {
    std::vector<NodeRule> all(std::begin(kNodeRules), std::end(kNodeRules));
    std::ranges::copy(OfferRules(), std::back_inserter(all));
    return all;
  }();
  return kAll;
}

}  // namespace pitcrew::fleet
