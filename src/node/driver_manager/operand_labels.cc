#include "node/driver_manager/operand_labels.h"

#include "api/labels.h"

namespace pitcrew::node::driver_manager {

const std::vector<OperandLabel>& OperandLabels() {
  static const std::vector<OperandLabel> kOperands = {
      {api::kDeployOperatorValidator, "nvidia-operator-validator"},
      {api::kDeployContainerToolkit, "nvidia-container-toolkit-daemonset"},
      // Of the runtimes beside the main one in a mixed cluster.
      {api::kDeployContainerToolkit, "nvidia-container-toolkit-daemonset-containerd"},
      {api::kDeployContainerToolkit, "nvidia-container-toolkit-daemonset-crio"},
      {api::kDeployContainerToolkit, "nvidia-container-toolkit-daemonset-docker"},
      {api::kDeployDevicePlugin, "nvidia-device-plugin-daemonset"},
      {api::kDeployGpuFeatureDiscovery, "gpu-feature-discovery"},
      {api::kDeployDcgmExporter, "nvidia-dcgm-exporter"},
      {api::kDeployDcgm, "nvidia-dcgm"},
      {api::kDeployDcgmExporterDra, "nvidia-dcgm-exporter-dra"},
      {api::kDeployDcgmDra, "nvidia-dcgm-dra"},
      {api::kDeployDraValidator, ""},
      {"nvidia.com/gpu.deploy.nvsm", ""},
      {api::kDeployMigManager, "nvidia-mig-manager"},
      {api::kDeploySandboxValidator, "nvidia-sandbox-validator"},
      {api::kDeploySandboxDevicePlugin, "nvidia-sandbox-device-plugin-daemonset"},
      {api::kDeployVgpuDeviceManager, "nvidia-vgpu-device-manager"},
      {api::kDeployClient, ""},
      {api::kDeployDraDriver, "nvidia-dra-driver-kubelet-plugin"},
  };
  return kOperands;
}

std::vector<std::string_view> LabelsToPause(std::string_view custom_label) {
  std::vector<std::string_view> labels;
  for (const auto& operand : OperandLabels()) labels.push_back(operand.label);
  if (!custom_label.empty()) labels.push_back(custom_label);
  return labels;
}

std::set<std::string, std::less<>> AppsToAwait() {
  std::set<std::string, std::less<>> apps;
  for (const auto& operand : OperandLabels()) {
    if (!operand.app.empty()) apps.emplace(operand.app);
  }
  return apps;
}

}  // namespace pitcrew::node::driver_manager
