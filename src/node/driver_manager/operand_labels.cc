#include "node/driver_manager/operand_labels.h"

#include "api/labels.h"
#include "desired/operand_table.h"

namespace pitcrew::node::driver_manager {
namespace {

PausedOperands Select(bool dra_plugin) {
  PausedOperands selected;
  for (const auto& paused : desired::Operands().paused_pods()) {
    if ((paused.label == api::kDeployDraDriver) != dra_plugin) continue;
    selected.labels.push_back(paused.label);
    if (!paused.app.empty()) selected.apps.emplace(paused.app);
  }
  return selected;
}

}  // namespace

PausedOperands OperandsToPause(std::string_view custom_label) {
  PausedOperands operands = Select(false);
  if (!custom_label.empty()) operands.labels.push_back(custom_label);
  return operands;
}

PausedOperands MachineOperandsToPause() {
  PausedOperands selected;
  for (const auto& operand : desired::Operands()) {
    const auto& workloads = operand.deploy.workloads;
    const bool both = workloads.passthrough && workloads.vgpu;
    if (!both || operand.gpu_client != desired::GpuClient::kPaused) continue;
    selected.labels.push_back(operand.deploy.key);
    selected.apps.insert(operand.daemonsets.begin(), operand.daemonsets.end());
  }
  return selected;
}

PausedOperands DraPluginToPause() { return Select(true); }

std::vector<std::string_view> LabelsToResume(std::string_view custom_label) {
  std::vector<std::string_view> labels = OperandsToPause(custom_label).labels;
  for (const std::string_view label : DraPluginToPause().labels) labels.push_back(label);
  return labels;
}

}  // namespace pitcrew::node::driver_manager
