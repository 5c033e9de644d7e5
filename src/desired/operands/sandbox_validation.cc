// Validation of virtual machine workloads (reference operand-manifests.md sections 8 and 18).
#include "api/labels.h"
#include "desired/daemonset.h"
#include "desired/node_labels.h"
#include "desired/operands/operands.h"
#include "desired/pod.h"

namespace pitcrew::desired {
namespace {

constexpr std::string_view kContainer = "nvidia-sandbox-validator";

Mode ModeOf(const api::ClusterPolicy& policy) {
  return policy.sandbox.enabled ? Mode::kEnabled : Mode::kDisabled;
}

base::Status Customize(std::vector<Object>& objects, const Context& context) {
  const api::ClusterPolicy& policy = context.policy;
  const api::Validator& validator = policy.validator;
  TRY_ASSIGN(Object * daemonset, ApplyValidator(objects, kContainer, context));
  if (!policy.cc_manager.enabled.value_or(false)) {
    RemoveContainer(*daemonset, "cc-manager-validation");
  }
  TRY(ApplyValidationInitContainers(*daemonset, context));
  const std::pair<std::string_view, const std::vector<api::EnvVar>&> components[] = {
      {"vfio-pci-validation", validator.vfio_pci_env},
      {"vgpu-manager-validation", validator.vgpu_manager_env},
      {"vgpu-devices-validation", validator.vgpu_devices_env}};
  // For nodes that carry no valid workload label of their own.
  const std::string_view workload = ToString(NodePolicyOf(policy).default_workload);
  for (const auto& [name, env] : components) {
    TRY_ASSIGN(Object * container, RequireContainer(*daemonset, name));
    SetEnv(*container, "DEFAULT_GPU_WORKLOAD_CONFIG", workload);
    SetEnv(*container, env);
  }
  return {};
}

}  // namespace

Operand SandboxValidation() {
  return {.state = "state-sandbox-validation",
          .condition = "SandboxValidationReady",
          .title = "validation of virtual machine workloads",
          .name = "sandbox validator",
          .daemonsets = {"nvidia-sandbox-validator"},
          .deploy = {.key = api::kDeploySandboxValidator,
                     .workloads = kMachines,
                     .on_divided_nodes = true},
          .stage = Stage::kValidation,
          .gpu_client = GpuClient::kPaused,
          .leaves_for = {NodeChange::kVgpu, NodeChange::kCc},
          .images = {kValidatorImage},
          .blocks = {"spec.validator", "spec.sandboxWorkloads", "spec.ccManager"},
          .mode = ModeOf,
          .customize = Customize};
}

}  // namespace pitcrew::desired
