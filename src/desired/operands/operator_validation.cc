// Operator validation (reference operand-manifests.md section 8).
#include "api/labels.h"
#include "base/strings.h"
#include "desired/daemonset.h"
#include "desired/operands/operands.h"
#include "desired/pod.h"

namespace pitcrew::desired {
namespace {

constexpr std::string_view kContainer = "nvidia-operator-validator";

// What the validator needs to make its workload pods.
void DescribeWorkload(Object& container, const std::string& image, const Object& pod,
                      const api::Validator& validator) {
  SetEnv(container, "VALIDATOR_IMAGE", image);
  SetEnv(container, "VALIDATOR_IMAGE_PULL_POLICY", validator.image.pull_policy);
  if (!validator.image.pull_secrets.empty()) {
    SetEnv(container, "VALIDATOR_IMAGE_PULL_SECRETS",
           base::Join(validator.image.pull_secrets, ","));
  }
  if (const auto runtime_class = pod.find("runtimeClassName"); runtime_class != pod.end()) {
    SetEnv(container, "VALIDATOR_RUNTIME_CLASS", runtime_class->get<std::string>());
  }
}

base::Status Customize(std::vector<Object>& objects, const Context& context) {
  const api::ClusterPolicy& policy = context.policy;
  const api::Validator& validator = policy.validator;
  TRY_ASSIGN(Object * daemonset, ApplyValidator(objects, kContainer, context));
  ApplyRuntimeClass(*daemonset, context, "toolkit-validation");

  if (!policy.device_plugin_enabled()) RemoveContainer(*daemonset, "plugin-validation");
  // Sets image, resources, user and the variables of driver and toolkit.
  TRY(ApplyValidationInitContainers(*daemonset, context));
  TRY_ASSIGN(const std::string image,
             ResolveImage(validator.image, kValidatorImage, context.images));
  if (Object* cuda = FindContainer(*daemonset, "cuda-validation")) {
    DescribeWorkload(*cuda, image, PodSpec(*daemonset), validator);
    SetEnv(*cuda, validator.cuda_env);
  }
  if (Object* plugin = FindContainer(*daemonset, "plugin-validation")) {
    DescribeWorkload(*plugin, image, PodSpec(*daemonset), validator);
    SetEnv(*plugin, "MIG_STRATEGY", policy.mig_strategy);
    SetEnv(*plugin, validator.plugin_env);
  }
  return {};
}

}  // namespace

Operand OperatorValidation() {
  return {.state = "state-operator-validation",
          .condition = "OperatorValidationReady",
          .title = "operator validation",
          .name = "validator",
          .daemonsets = {"nvidia-operator-validator"},
          .deploy = {.key = api::kDeployOperatorValidator, .workloads = kContainers},
          .stage = Stage::kValidation,
          .gpu_client = GpuClient::kPaused,
          .images = {kValidatorImage},
          .blocks = {"spec.validator", "spec.mig"},
          .mode = nullptr,
          .customize = Customize};
}

}  // namespace pitcrew::desired
