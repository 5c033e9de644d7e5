#include "desired/node_labels.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "api/labels.h"
#include "base/strings.h"
#include "desired/driver_objects/assignment.h"
#include "desired/pause_words.h"
#include "desired/qualification_gate.h"

namespace pitcrew::desired {
namespace {

// What a node's GPUs are for.
struct Use {
  Workload workload = Workload::kContainer;
  bool divided = false;  // some of its GPUs are for virtual machines
};

Use UseOf(const Node& node, const NodePolicy& policy) {
  return {WorkloadOf(node, policy), IsDivided(node, policy)};
}

bool IsWanted(const DeployLabel& label, const Use& use, std::string_view sandbox_mode) {
  const bool of_mode = label.sandbox_mode.empty() || label.sandbox_mode == sandbox_mode;
  if (use.divided && label.on_divided_nodes) return of_mode;
  return label.workloads.Has(use.workload) && (use.workload != Workload::kPassthrough || of_mode);
}

void Set(Changes& changes, std::string_view key, std::string_view value) {
  changes[std::string(key)] = std::string(value);
}

void RemoveIfThere(Changes& changes, const Labels& labels, std::string_view key) {
  if (labels.Has(key)) changes[std::string(key)] = std::nullopt;
}

void RemoveDeployLabels(Changes& changes, const Labels& labels, const OperandTable& operands) {
  for (const DeployLabel& label : operands.deploy_labels()) {
    RemoveIfThere(changes, labels, label.key);
  }
  // Only here: a node of another workload may still have pods that hold its claims, and taking the
  // driver away from them would break them.
  RemoveIfThere(changes, labels, api::kDeployDraDriver);
}

using Words = std::vector<std::string_view>;

// Whether a pod with a driver manager is to run on the node. Killed while it has paused operands or
// cordoned the node, its next run takes that back; without one nobody does.
bool HasDriverManager(const Node& node, const NodePolicy& policy) {
  const auto takes = [&](std::string_view label) {
    const std::string_view value = node.labels.Get(label);
    return value.empty() || value == "true";  // not kept off by a person, or by the host's driver
  };
  const bool by_objects = policy.driver_enabled && policy.nvidia_driver_crd;
  switch (WorkloadOf(node, policy)) {
    case Workload::kPassthrough:
      return policy.vfio_manager_enabled && takes(api::kDeployVfioManager);
    case Workload::kVgpu:
      return (policy.vgpu_manager_enabled || by_objects) && takes(api::kDeployVgpuManager);
    case Workload::kContainer:
      break;
  }
  if (!policy.driver_enabled || !takes(api::kDeployDriver)) return false;
  if (!by_objects || policy.drivers == nullptr) return true;
  const DriverAssignment::Choice choice = policy.drivers->Of(node.labels);
  return choice.open || choice.driver != nullptr;
}

// Of operands that the node does not have: whoever left one of them in a label does not come back
// to take it away (virtualisation-and-olm.md section 7, row 10).
Words LeftPauses(const Node& node, const Use& use, const NodePolicy& policy,
                 const OperandTable& operands) {
  Words words;
  if (!HasDriverManager(node, policy)) words.push_back(api::kPausedForDriverUpgrade);
  for (const Operand& operand : operands) {
    if (operand.pauses_with.empty() || IsWanted(operand.deploy, use, policy.sandbox_mode)) {
      continue;
    }
    words.push_back(operand.pauses_with);
  }
  return words;
}

void DecideDeployLabel(const DeployLabel& label, const Node& node, const NodePolicy& policy,
                       const Words& left_pauses, Changes& changes) {
  const std::string_view standing = node.labels.Get(label.key);
  const std::string value = WithoutPauses(standing, left_pauses);
  if (label.only_on != nullptr) {
    if (value != standing) {
      Set(changes, label.key, value.empty() ? "true" : value);
    } else if (!node.labels.Has(label.key) && label.only_on(node.labels)) {
      Set(changes, label.key, "true");
    }
    return;
  }
  // Any other value is a person's, or of a component that has paused the operand.
  if (!value.empty() && !label.IsOwn(value)) {
    if (value != standing) Set(changes, label.key, value);
    return;
  }
  const std::string_view wanted = label.value == nullptr ? "true" : label.value(node, policy);
  if (standing != wanted) Set(changes, label.key, wanted);
}

void DecideDeployLabels(const Node& node, const NodePolicy& policy, const OperandTable& operands,
                        Changes& changes) {
  if (node.labels.Is(api::kDeployOperands, "false")) {
    RemoveDeployLabels(changes, node.labels, operands);
    return;
  }
  const Use use = UseOf(node, policy);
  const Words left_pauses = LeftPauses(node, use, policy, operands);
  for (const DeployLabel& label : operands.deploy_labels()) {
    if (IsWanted(label, use, policy.sandbox_mode)) {
      DecideDeployLabel(label, node, policy, left_pauses, changes);
    } else {
      RemoveIfThere(changes, node.labels, label.key);
    }
  }
}

void DecideUpgradeAnnotation(const Node& node, bool wanted, NodeDecision& decision) {
  if (wanted && !(node.upgrade_enabled == "true")) {
    Set(decision.annotations, api::kUpgradeEnabledAnnotation, "true");
  } else if (!wanted && !node.upgrade_enabled.empty()) {
    decision.annotations[std::string(api::kUpgradeEnabledAnnotation)] = std::nullopt;
  }
}

void ReleaseCordon(const Node& node, NodeDecision& decision) {
  if (!node.cordoned_by_driver_manager) return;
  decision.annotations[std::string(kCordonedByDriverManager)] = std::nullopt;
  decision.uncordon = node.unschedulable;
}

// Which NVIDIADriver the node's driver is.
void DecideDriverOwner(const Node& node, const NodePolicy& policy, NodeDecision& decision) {
  // A selector may ask for the label that says that there is a GPU: it is written first.
  if (policy.drivers == nullptr || !node.gpu_present()) return;
  const DriverAssignment::Choice choice = policy.drivers->Of(node.labels);
  if (choice.open) return;
  if (choice.driver == nullptr) {
    RemoveIfThere(decision.labels, node.labels, api::kDriverOwner);
  } else if (!node.labels.Is(api::kDriverOwner, choice.driver->name)) {
    Set(decision.labels, api::kDriverOwner, choice.driver->name);
  }
  // It tells the driver manager that the operator sends the pods away before a driver goes. It does
  // so for drivers of containers only: those of virtual machines have no rolling upgrade.
  DecideUpgradeAnnotation(node,
                          choice.driver != nullptr &&
                              WorkloadOf(node, policy) == Workload::kContainer &&
                              choice.driver->type != api::kDriverTypeVgpuHost &&
                              choice.driver->driver.upgrade_policy.auto_upgrade,
                          decision);
}

}  // namespace

NodePolicy NodePolicyOf(const api::ClusterPolicy& policy, std::optional<Runtime> main_runtime) {
  NodePolicy result;
  if (policy.toolkit_enabled()) result.main_runtime = main_runtime;
  result.sandbox_enabled = policy.sandbox.enabled;
  result.default_workload = WorkloadFor("", policy.sandbox);
  result.sandbox_mode = policy.sandbox.mode;
  result.driver_enabled = policy.driver_enabled();
  result.vgpu_manager_enabled = policy.vgpu_manager.enabled.value_or(false);
  result.vfio_manager_enabled = policy.vfio_manager.enabled.value_or(false);
  result.mig_manager_enabled = policy.mig_manager_enabled();
  result.mig_default_all_disabled = policy.mig_manager.config_default == api::kMigConfigAllDisabled;
  result.qualification_required = policy.validator.qualification_required;
  result.nvidia_driver_crd = policy.driver.use_nvidia_driver_crd;
  result.driver_auto_upgrade = policy.driver_enabled() &&
                               policy.driver.upgrade_policy.auto_upgrade && !policy.sandbox.enabled;
  return result;
}

std::optional<Runtime> NodeMainRuntime(std::string_view openshift_version,
                                       const RuntimeCounts& runtimes,
                                       const StandingToolkits& toolkits) {
  if (!openshift_version.empty()) return std::nullopt;
  return MainRuntime(runtimes, toolkits);
}

Workload WorkloadOf(const Node& node, const NodePolicy& policy) {
  if (!policy.sandbox_enabled) return Workload::kContainer;
  const std::string_view label = node.labels.Get(api::kWorkloadConfig);
  if (const auto own = WorkloadNamed(label)) return *own;
  const auto standing = label.empty()
                            ? std::nullopt
                            : SetUpFor([&](std::string_view key) { return node.labels.Has(key); });
  return standing.value_or(policy.default_workload);
}

// The driver manager divides the GPUs, and it comes with the driver.
std::string WhyNotDivided(const DivisionFacts& facts) {
  if (!facts.sandbox_enabled) return "the policy has sandbox workloads switched off";
  if (facts.workload != Workload::kContainer) {
    return fmt::format("the node's workload is {}, which all its GPUs are for",
                       ToString(facts.workload));
  }
  if (!facts.driver_enabled) {
    return "the operator does not bring the driver, with which the GPUs are divided";
  }
  if (facts.driver_label == api::kPreInstalled) {
    return "the node has a driver of its own, and GPUs are divided before a driver comes";
  }
  if (facts.driver_label == "false") {
    return fmt::format(
        "the label {}=false keeps the driver off the node, with which the GPUs are "
        "divided",
        api::kDeployDriver);
  }
  return "";
}

std::string WhyNotDivided(const Node& node, const NodePolicy& policy) {
  if (!node.has_machine_gpus) return "";
  return WhyNotDivided({.sandbox_enabled = policy.sandbox_enabled,
                        .workload = WorkloadOf(node, policy),
                        .driver_enabled = policy.driver_enabled,
                        .driver_label = node.labels.Get(api::kDeployDriver)});
}

bool IsDivided(const Node& node, const NodePolicy& policy) {
  return node.has_machine_gpus && WhyNotDivided(node, policy).empty();
}

std::optional<Workload> SetUpFor(const std::function<bool(std::string_view key)>& has_label) {
  if (has_label(api::kDeployVfioManager)) return Workload::kPassthrough;
  if (has_label(api::kDeployVgpuManager)) return Workload::kVgpu;
  if (has_label(api::kDeployContainerToolkit)) return Workload::kContainer;
  return std::nullopt;
}

bool IsUnknownWorkload(std::string_view label) { return !label.empty() && !WorkloadNamed(label); }

bool IsMigCapable(const Labels& labels) {
  if (!labels.Get(api::kVgpuHostDriverVersion).empty()) return false;
  if (labels.Has(api::kMigCapable)) return labels.Is(api::kMigCapable, "true");
  // Until feature discovery has said so, by the product's name: whole words, because "a30" is also
  // in RTX-A3000.
  constexpr std::string_view kProducts[] = {"a30",   "a100",  "a100x", "a800", "h20",  "h100",
                                            "h200",  "h800",  "gh200", "b200", "b300", "gb200",
                                            "gb300", "a800x", "h100x", "a30x"};
  std::string product = base::ToLower(labels.Get(api::kGpuProduct));
  std::ranges::replace(product, ' ', '-');
  return std::ranges::any_of(base::Split(product, '-'), [&](const std::string& word) {
    return std::ranges::find(kProducts, word) != std::end(kProducts);
  });
}

bool LosesGpu(const Node& node) {
  return node.gpu_present() && !node.has_gpu_pci_label() && node.nfd_labels && !node.offers_gpu;
}

NodeDecision DecideNode(const Node& node, const NodePolicy& policy, const OperandTable& operands) {
  NodeDecision decision;
  const bool was_present = node.gpu_present();
  const bool has_label = node.has_gpu_pci_label();
  const bool present = has_label || (was_present && !LosesGpu(node));
  if (present && !was_present) Set(decision.labels, api::kGpuPresent, "true");
  if (!present && was_present) {
    Set(decision.labels, api::kGpuPresent, "false");
    decision.removes_gpu = true;
  }
  if (!present) {
    RemoveDeployLabels(decision.labels, node.labels, operands);
    if (policy.nvidia_driver_crd) RemoveIfThere(decision.labels, node.labels, api::kDriverOwner);
    if (!node.upgrade_enabled.empty()) {
      decision.annotations[std::string(api::kUpgradeEnabledAnnotation)] = std::nullopt;
    }
    // A node may come with the taint, before it is known to have a GPU.
    if (was_present || !policy.qualification_required) Release(node, decision);
    ReleaseCordon(node, decision);
    return decision;
  }
  DecideQualification(node, policy, !was_present, decision);
  DecideDeployLabels(node, policy, operands, decision.labels);
  if (node.labels.Is(api::kDeployOperands, "false") || !HasDriverManager(node, policy)) {
    ReleaseCordon(node, decision);
  }
  if (policy.mig_manager_enabled && policy.mig_default_all_disabled && IsMigCapable(node.labels) &&
      node.labels.Get(api::kMigConfig).empty()) {
    Set(decision.labels, api::kMigConfig, api::kMigConfigAllDisabled);
  }
  // With NVIDIADriver objects the annotation follows each of them.
  if (policy.nvidia_driver_crd) {
    DecideDriverOwner(node, policy, decision);
  } else {
    DecideUpgradeAnnotation(node, policy.driver_auto_upgrade, decision);
  }
  return decision;
}

}  // namespace pitcrew::desired
