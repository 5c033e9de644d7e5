// Operator validation (reference operand-manifests.md section 8).
#include "api/labels.h"
#include "api/validator_names.h"
#include "base/strings.h"
#include "desired/daemonset.h"
#include "desired/operands/operands.h"
#include "desired/pod.h"

namespace pitcrew::desired {
namespace {

constexpr std::string_view kContainer = "nvidia-operator-validator";
constexpr std::string_view kToolkitContainer = "toolkit-validation";
constexpr std::string_view kQualificationContainer = "qualification";

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

// Behind the container that proves the toolkit, and like it: what it gets is all GPUs.
base::Status AddQualification(Object& daemonset, const Context& context) {
  TRY_ASSIGN(const Object* pattern, RequireContainer(daemonset, kToolkitContainer));
  Object container = *pattern;
  container["name"] = kQualificationContainer;
  container["command"] = Object::array({"nvidia-validator"});
  container["args"] = Object::array({"qualify", "--tell", "--if-needed"});
  container["env"] = Object::array(
      {{{"name", "NVIDIA_VISIBLE_DEVICES"}, {"value", "all"}},
       {{"name", "NODE_NAME"}, {"valueFrom", {{"fieldRef", {{"fieldPath", "spec.nodeName"}}}}}}});
  container.erase("volumeMounts");
  Object& list = PodSpec(daemonset)["initContainers"];
  for (auto place = list.begin(); place != list.end(); ++place) {
    if (NameOf(*place) != kToolkitContainer) continue;
    list.insert(place + 1, std::move(container));
    break;
  }
  ApplyRuntimeClass(daemonset, context, kQualificationContainer);
  return {};
}

base::Status Customize(std::vector<Object>& objects, const Context& context) {
  const api::ClusterPolicy& policy = context.policy;
  const api::Validator& validator = policy.validator;
  TRY_ASSIGN(Object * daemonset, ApplyValidator(objects, kContainer, context));
  ApplyRuntimeClass(*daemonset, context, kToolkitContainer);

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
  if (validator.qualification_required) TRY(AddQualification(*daemonset, context));
  return {};
}

}  // namespace

Operand OperatorValidation() {
  return {.state = "state-operator-validation",
          .condition = "OperatorValidationReady",
          .title = "operator validation",
          .name = "validator",
          .daemonsets = {api::kOperatorValidator},
          .deploy = {.key = api::kDeployOperatorValidator, .workloads = kContainers},
          .stage = Stage::kValidation,
          .gpu_client = GpuClient::kPaused,
          .images = {kValidatorImage},
          .blocks = {"spec.validator", "spec.mig"},
          .mode = nullptr,
          .customize = Customize};
}

}  // namespace pitcrew::desired
