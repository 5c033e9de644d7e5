#include "desired/node_labels.h"

#include <algorithm>
#include <vector>

#include "api/labels.h"
#include "base/strings.h"

namespace pitcrew::desired {
namespace {

using api::kDeployMigManager;

constexpr std::string_view kContainer = "container";
constexpr std::string_view kPassthrough = "vm-passthrough";
constexpr std::string_view kVgpu = "vm-vgpu";

// Which workloads want a deploy label. A label that no workload wants is only ever removed.
struct DeployLabel {
  std::string_view key;
  bool container;
  bool passthrough;
  bool vgpu;
};

// mig-manager has rules of its own, and so has dra-driver: taking it away from pods that still hold
// claims would break them, so it is left to whoever set it.
constexpr DeployLabel kDeployLabels[] = {
    {api::kDeployDriver, true, false, false},
    {api::kDeployGpuFeatureDiscovery, true, false, false},
    {api::kDeployContainerToolkit, true, false, false},
    {api::kDeployDevicePlugin, true, false, false},
    {api::kDeployDcgm, true, false, false},
    {api::kDeployDcgmExporter, true, false, false},
    {api::kDeployNodeStatusExporter, true, false, false},
    {api::kDeployOperatorValidator, true, false, false},
    {api::kDeployClient, true, true, true},
    {api::kDeploySandboxValidator, false, true, true},
    {api::kDeployCcManager, false, true, true},
    {api::kDeployVfioManager, false, true, false},
    {api::kDeployKataManager, false, true, false},
    {api::kDeploySandboxDevicePlugin, false, true, true},
    {api::kDeployKataSandboxDevicePlugin, false, true, false},
    {api::kDeployVgpuManager, false, false, true},
    {api::kDeployVgpuDeviceManager, false, false, true},
    {api::kDeployDraValidator, false, false, false},
    {api::kDeployDcgmDra, false, false, false},
    {api::kDeployDcgmExporterDra, false, false, false},
};

bool IsWanted(const DeployLabel& label, std::string_view workload, std::string_view mode) {
  if (workload == kContainer) return label.container;
  if (workload == kVgpu) return label.vgpu;
  // Passthrough nodes have one of two plugins, by the mode of sandbox workloads.
  if (label.key == api::kDeploySandboxDevicePlugin) return mode == "kubevirt";
  if (label.key == api::kDeployKataSandboxDevicePlugin) return mode == "kata";
  return label.passthrough;
}

void Set(Changes& changes, std::string_view key, std::string_view value) {
  changes[std::string(key)] = std::string(value);
}

void RemoveIfThere(Changes& changes, const Labels& labels, std::string_view key) {
  if (labels.Has(key)) changes[std::string(key)] = std::nullopt;
}

void RemoveDeployLabels(Changes& changes, const Labels& labels) {
  for (const DeployLabel& label : kDeployLabels) RemoveIfThere(changes, labels, label.key);
  RemoveIfThere(changes, labels, kDeployMigManager);
  RemoveIfThere(changes, labels, api::kDeployDraDriver);
}

// "true", or the name of the node's runtime where that one has a toolkit of its own: a value that
// the driver manager pauses and resumes, and that upstream's operator would keep.
std::string_view ToolkitLabelOf(const Node& node, const NodePolicy& policy) {
  const auto runtime = RuntimeOf(node.runtime);
  if (!policy.main_runtime || !runtime || *runtime == *policy.main_runtime) return "true";
  return ToString(*runtime);
}

void DecideToolkitLabel(const Node& node, const NodePolicy& policy, Changes& changes) {
  const std::string_view value = node.labels.Get(api::kDeployContainerToolkit);
  // Any other value is a person's or the driver manager's.
  if (!value.empty() && value != "true" && !RuntimeNamed(value)) return;
  const std::string_view wanted = ToolkitLabelOf(node, policy);
  if (value != wanted) Set(changes, api::kDeployContainerToolkit, wanted);
}

void DecideDeployLabels(const Node& node, const NodePolicy& policy, Changes& changes) {
  const Labels& labels = node.labels;
  if (labels.Is(api::kDeployOperands, "false")) {
    RemoveDeployLabels(changes, labels);
    return;
  }
  const std::string workload = WorkloadOf(node, policy);
  for (const DeployLabel& label : kDeployLabels) {
    if (!IsWanted(label, workload, policy.sandbox_mode)) {
      RemoveIfThere(changes, labels, label.key);
    } else if (label.key == api::kDeployContainerToolkit) {
      DecideToolkitLabel(node, policy, changes);
    } else if (labels.Get(label.key).empty()) {
      // Other values are a person's, or the driver manager's while it works.
      Set(changes, label.key, "true");
    }
  }
  if (workload != kContainer) {
    RemoveIfThere(changes, labels, kDeployMigManager);
  } else if (!labels.Has(kDeployMigManager) && IsMigCapable(labels)) {
    Set(changes, kDeployMigManager, "true");
  }
}

}  // namespace

NodePolicy NodePolicyOf(const api::ClusterPolicy& policy, std::optional<Runtime> main_runtime) {
  NodePolicy result;
  if (policy.toolkit_enabled()) result.main_runtime = main_runtime;
  result.sandbox_enabled = policy.sandbox.enabled;
  if (policy.sandbox.enabled && !policy.sandbox.default_workload.empty()) {
    result.default_workload = policy.sandbox.default_workload;
  }
  result.sandbox_mode = policy.sandbox.mode;
  result.mig_manager_enabled = policy.mig_manager_enabled();
  result.mig_default_all_disabled = policy.mig_manager.config_default == api::kMigConfigAllDisabled;
  result.nvidia_driver_crd = policy.driver.use_nvidia_driver_crd;
  result.driver_auto_upgrade = policy.driver_enabled() &&
                               policy.driver.upgrade_policy.auto_upgrade && !policy.sandbox.enabled;
  return result;
}

std::string WorkloadOf(const Node& node, const NodePolicy& policy) {
  if (!policy.sandbox_enabled) return std::string(kContainer);
  const std::string_view own = node.labels.Get(api::kWorkloadConfig);
  if (own == kContainer || own == kPassthrough || own == kVgpu) return std::string(own);
  return policy.default_workload;
}

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
  return node.gpu_present() && !node.has_gpu_pci_label() && node.nfd_labels;
}

bool IsMassRemoval(std::size_t gpu_nodes, std::size_t losing) {
  return losing > 2 && losing * 10 > gpu_nodes;
}

NodeDecision DecideNode(const Node& node, const NodePolicy& policy) {
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
    RemoveDeployLabels(decision.labels, node.labels);
    if (!node.upgrade_enabled.empty()) {
      decision.annotations[std::string(api::kUpgradeEnabledAnnotation)] = std::nullopt;
    }
    return decision;
  }
  DecideDeployLabels(node, policy, decision.labels);
  if (policy.mig_manager_enabled && policy.mig_default_all_disabled && IsMigCapable(node.labels) &&
      node.labels.Get(api::kMigConfig).empty()) {
    Set(decision.labels, api::kMigConfig, api::kMigConfigAllDisabled);
  }
  // With NVIDIADriver objects the annotation follows each of them.
  if (!policy.nvidia_driver_crd || policy.sandbox_enabled) {
    if (policy.driver_auto_upgrade && node.upgrade_enabled != "true") {
      Set(decision.annotations, api::kUpgradeEnabledAnnotation, "true");
    } else if (!policy.driver_auto_upgrade && !node.upgrade_enabled.empty()) {
      decision.annotations[std::string(api::kUpgradeEnabledAnnotation)] = std::nullopt;
    }
  }
  return decision;
}

}  // namespace pitcrew::desired
