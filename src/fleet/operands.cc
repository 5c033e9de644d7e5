#include "fleet/operands.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "api/labels.h"

namespace pitcrew::fleet {
namespace {

using api::ClusterPolicy;

bool Sandbox(const ClusterPolicy& policy) { return policy.sandbox.enabled; }

constexpr std::array<Stage, 12> kContainerChain = {
    Stage::kNode,   Stage::kPciDevice,   Stage::kLabels,      Stage::kWorkload,
    Stage::kDriver, Stage::kModule,      Stage::kToolkit,     Stage::kValidation,
    Stage::kPlugin, Stage::kAllocatable, Stage::kSchedulable, Stage::kMetrics};
constexpr std::array<Stage, 9> kMachineChain = {
    Stage::kNode,       Stage::kPciDevice, Stage::kLabels,      Stage::kWorkload,   Stage::kDriver,
    Stage::kValidation, Stage::kPlugin,    Stage::kAllocatable, Stage::kSchedulable};

// What NVIDIADriver objects deploy, instead of the policy's driver (operator-behaviour.md 8.3).
constexpr std::string_view kDriverOfObject = "nvidia-gpu-driver-";

// A longer name stands before the one that it begins with.
constexpr Operand kOperands[] = {
    {"driver", "nvidia-driver-daemonset", api::kDeployDriver, Stage::kDriver, "driver", true, false,
     false, [](const ClusterPolicy& policy) { return policy.driver_enabled(); }},
    {"VFIO manager", "nvidia-vfio-manager", api::kDeployVfioManager, Stage::kDriver, "vfioManager",
     false, true, false,
     [](const ClusterPolicy& policy) {
       return Sandbox(policy) && policy.vfio_manager.enabled.value_or(false);
     }},
    {"vGPU manager", "nvidia-vgpu-manager-daemonset", api::kDeployVgpuManager, Stage::kDriver,
     "vgpuManager", false, false, true,
     [](const ClusterPolicy& policy) {
       return Sandbox(policy) && policy.vgpu_manager.enabled.value_or(false) &&
              !policy.driver.use_nvidia_driver_crd;
     }},
    {"vGPU device manager", "nvidia-vgpu-device-manager", api::kDeployVgpuDeviceManager,
     Stage::kDriver, "vgpuDeviceManager", false, false, true,
     [](const ClusterPolicy& policy) {
       return Sandbox(policy) && policy.vgpu_device_manager.enabled.value_or(false);
     }},
    {"container toolkit", "nvidia-container-toolkit-daemonset", api::kDeployContainerToolkit,
     Stage::kToolkit, "toolkit", true, false, false,
     [](const ClusterPolicy& policy) { return policy.toolkit_enabled(); }},
    {"validator", "nvidia-operator-validator", api::kDeployOperatorValidator, Stage::kValidation,
     "validator", true, false, false, [](const ClusterPolicy&) { return true; }},
    {"sandbox validator", "nvidia-sandbox-validator", api::kDeploySandboxValidator,
     Stage::kValidation, "validator", false, true, true, Sandbox},
    {"device plugin", "nvidia-device-plugin-daemonset", api::kDeployDevicePlugin, Stage::kPlugin,
     "devicePlugin", true, false, false,
     [](const ClusterPolicy& policy) { return policy.device_plugin_enabled(); }},
    {"MPS control daemon", "nvidia-device-plugin-mps-control-daemon", api::kDeployDevicePlugin,
     Stage::kPlugin, "devicePlugin", true, false, false,
     [](const ClusterPolicy& policy) { return policy.device_plugin_enabled(); }},
    {"sandbox device plugin", "nvidia-sandbox-device-plugin-daemonset",
     api::kDeploySandboxDevicePlugin, Stage::kPlugin, "sandboxDevicePlugin", false, true, true,
     [](const ClusterPolicy& policy) {
       return Sandbox(policy) && policy.sandbox_device_plugin.enabled.value_or(false) &&
              policy.sandbox.mode != "kata";
     }},
    {"Kata device plugin", "nvidia-kata-sandbox-device-plugin-daemonset",
     api::kDeployKataSandboxDevicePlugin, Stage::kPlugin, "kataSandboxDevicePlugin", false, true,
     false,
     [](const ClusterPolicy& policy) {
       return Sandbox(policy) && policy.kata_sandbox_device_plugin.enabled.value_or(false) &&
              policy.sandbox.mode == "kata";
     }},
    {"MIG manager", "nvidia-mig-manager", api::kDeployMigManager, Stage::kAllocatable, "migManager",
     true, false, false, [](const ClusterPolicy& policy) { return policy.mig_manager_enabled(); }},
    {"CC manager", "nvidia-cc-manager", api::kDeployCcManager, Stage::kAllocatable, "ccManager",
     false, true, true,
     [](const ClusterPolicy& policy) {
       return Sandbox(policy) && policy.cc_manager.enabled.value_or(false) &&
              policy.sandbox.mode == "kata";
     }},
    {"feature discovery", "gpu-feature-discovery", api::kDeployGpuFeatureDiscovery, Stage::kMetrics,
     "gfd", true, false, false, [](const ClusterPolicy& policy) { return policy.gfd_enabled(); }},
    {"metrics exporter", "nvidia-dcgm-exporter", api::kDeployDcgmExporter, Stage::kMetrics,
     "dcgmExporter", true, false, false,
     [](const ClusterPolicy& policy) { return policy.dcgm_exporter_enabled(); }},
    {"DCGM", "nvidia-dcgm", api::kDeployDcgm, Stage::kMetrics, "dcgm", true, false, false,
     [](const ClusterPolicy& policy) { return policy.dcgm_enabled(); }},
    {"node status exporter", "nvidia-node-status-exporter", api::kDeployNodeStatusExporter,
     Stage::kMetrics, "nodeStatusExporter", true, false, false,
     [](const ClusterPolicy& policy) {
       return policy.node_status_exporter.enabled.value_or(false);
     }},
};

}  // namespace

std::string_view ToString(Workload workload) {
  switch (workload) {
    case Workload::kContainer:
      return "container";
    case Workload::kPassthrough:
      return "vm-passthrough";
    case Workload::kVgpu:
      return "vm-vgpu";
  }
  return "";
}

Workload WorkloadOf(const Node& node, const ClusterPolicy* policy) {
  if (policy == nullptr || !policy->sandbox.enabled) return Workload::kContainer;
  for (const std::string_view word :
       {node.Label(api::kWorkloadConfig), std::string_view(policy->sandbox.default_workload)}) {
    for (const Workload workload :
         {Workload::kContainer, Workload::kPassthrough, Workload::kVgpu}) {
      if (word == ToString(workload)) return workload;
    }
  }
  return Workload::kContainer;
}

std::string_view ToString(Stage stage) {
  switch (stage) {
    case Stage::kNode:
      return "node";
    case Stage::kPciDevice:
      return "pci-device";
    case Stage::kLabels:
      return "labels";
    case Stage::kWorkload:
      return "workload";
    case Stage::kDriver:
      return "driver";
    case Stage::kModule:
      return "kernel-module";
    case Stage::kToolkit:
      return "toolkit";
    case Stage::kValidation:
      return "validation";
    case Stage::kPlugin:
      return "device-plugin";
    case Stage::kAllocatable:
      return "allocatable";
    case Stage::kSchedulable:
      return "schedulable";
    case Stage::kMetrics:
      return "metrics";
    case Stage::kReady:
      return "ready";
  }
  return "";
}

std::span<const Stage> ChainOf(Workload workload) {
  if (workload == Workload::kContainer) return kContainerChain;
  return kMachineChain;
}

std::span<const Operand> Operands() { return kOperands; }

const Operand* OperandOf(std::string_view daemonset) {
  if (daemonset.starts_with(kDriverOfObject)) return &OperandNamed("driver");
  const auto found = std::ranges::find_if(kOperands, [&](const Operand& operand) {
    return daemonset == operand.daemonset ||
           (daemonset.starts_with(operand.daemonset) && daemonset[operand.daemonset.size()] == '-');
  });
  return found == std::end(kOperands) ? nullptr : &*found;
}

const Operand& OperandNamed(std::string_view name) {
  const auto found = std::ranges::find(kOperands, name, &Operand::name);
  if (found == std::end(kOperands)) std::abort();  // a misspelt name in this room
  return *found;
}

}  // namespace pitcrew::fleet
