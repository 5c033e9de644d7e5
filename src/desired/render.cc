#include "desired/render.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "api/labels.h"
#include "base/strings.h"
#include "desired/daemonset.h"
#include "desired/placement.h"
#include "desired/pod.h"

namespace pitcrew::desired {
namespace {

constexpr std::string_view kClusterScopedKinds[] = {"ClusterRole", "ClusterRoleBinding",
                                                    "RuntimeClass", "SecurityContextConstraints"};

// Why drivers cannot be left to NVIDIADriver objects.
constexpr std::string_view kNoDriverObjects =
    "spec.driver.useNvidiaDriverCRD: the cluster does not serve NVIDIADriver objects, so nobody "
    "would look after the drivers: install the CustomResourceDefinition nvidiadrivers.nvidia.com, "
    "or describe the driver under spec.driver";

base::Status CheckBlocks(const Operand& operand, const std::vector<api::FieldProblem>& problems) {
  std::vector<std::string> messages;
  for (const api::FieldProblem& problem : problems) {
    if (operand.Reads(problem.path)) {
      messages.push_back(fmt::format("{}: {}", problem.path, problem.message));
    }
  }
  if (messages.empty()) return {};
  return base::Fail(base::Invalid("InvalidPolicy", base::Join(messages, "; ")));
}

void SetSubjectNamespace(Object& binding, const std::string& name) {
  const auto subjects = binding.find("subjects");
  if (subjects == binding.end()) return;
  for (Object& subject : *subjects) {
    if (codec::FindString(subject, {"kind"}) == "ServiceAccount" &&
        !subject.contains("namespace")) {
      subject["namespace"] = name;
    }
  }
}

// On OpenShift: the constraints are for the ServiceAccount of the same name.
void SetConstraintUsers(Object& object, const std::string& operator_namespace) {
  object["users"] = Object::array(
      {fmt::format("system:serviceaccount:{}:{}", operator_namespace, NameOf(object))});
}

// Namespace, owner, inventory label and hash: the same for every object of every operand.
void FinishObject(Object& object, const Operand& operand, const Context& context) {
  const std::string kind = codec::FindString(object, {"kind"});
  if (std::ranges::find(kClusterScopedKinds, kind) == std::end(kClusterScopedKinds) &&
      codec::FindString(object, {"metadata", "namespace"}).empty()) {
    object["metadata"]["namespace"] = context.operator_namespace;
  }
  SetSubjectNamespace(object, context.operator_namespace);
  if (kind == "SecurityContextConstraints") SetConstraintUsers(object, context.operator_namespace);
  object["metadata"]["ownerReferences"] = Object::array(
      {context.owner ? context.owner->Reference() : Owner::Of(context.policy).Reference()});
  SetLabel(object, api::kStateLabel, operand.state);
  SetAnnotation(object, api::kLastAppliedHash, HashOf(object));
}

std::vector<Object> LeftAlone(const Operand& operand, const Context& context) {
  std::vector<Object> objects;
  if (operand.leaves_alone == nullptr) return objects;
  auto manifests = context.operands.LoadManifests(operand.state, context.facts.openshift());
  if (!manifests) return objects;  // rendering says why
  for (Object& object : *manifests) {
    if (!operand.leaves_alone(object, context)) continue;
    FinishObject(object, operand, context);
    objects.push_back(std::move(object));
  }
  return objects;
}

void AddIfNamed(std::vector<std::string>& names, const std::string& name) {
  if (!name.empty() && std::ranges::find(names, name) == names.end()) names.push_back(name);
}

}  // namespace

std::vector<api::FieldProblem> CheckPolicy(const api::ClusterPolicy& policy) {
  std::vector<api::FieldProblem> problems = policy.problems;
  if (policy.cdi.nri_plugin_enabled && !policy.cdi.enabled) {
    problems.push_back(
        {"spec.cdi.nriPluginEnabled", "the NRI Plugin cannot be enabled when CDI is disabled"});
  }
  if (policy.cdi.nri_plugin_enabled && !policy.toolkit_enabled()) {
    problems.push_back({"spec.cdi.nriPluginEnabled",
                        "the NRI Plugin cannot be enabled when the Container Toolkit is disabled"});
  }
  return problems;
}

std::string HashOf(const Object& object) {
  Object copy = object;
  if (auto metadata = copy.find("metadata"); metadata != copy.end()) {
    if (auto annotations = metadata->find("annotations"); annotations != metadata->end()) {
      annotations->erase(std::string(api::kLastAppliedHash));
      if (annotations->empty()) metadata->erase("annotations");
    }
  }
  return std::to_string(base::HashFnv1a32(codec::ToJsonText(copy)));
}

base::Result<std::vector<Object>> RenderObjects(const Operand& operand, const Context& context) {
  TRY(CheckBlocks(operand, CheckPolicy(context.policy)));
  TRY_ASSIGN(std::vector<Object> objects,
             context.operands.LoadManifests(operand.state, context.facts.openshift()));
  const auto is_daemonset = [](const Object& object) {
    return codec::FindString(object, {"kind"}) == "DaemonSet";
  };
  if (operand.leaves_alone != nullptr) {
    std::erase_if(objects,
                  [&](const Object& object) { return operand.leaves_alone(object, context); });
  }
  for (Object& object : objects) {
    if (is_daemonset(object)) TRY(ApplyCommonConfig(object, context));
  }
  if (operand.customize != nullptr) TRY(operand.customize(objects, context));
  if (context.placement) TRY(Place(objects, *context.placement));
  // Only now, so that a wrong policy is reported before the first GPU node joins.
  if (context.facts.gpu_nodes == 0) std::erase_if(objects, is_daemonset);
  for (Object& object : objects) {
    if (is_daemonset(object)) ApplyCommonMetadata(object, context.policy);
    FinishObject(object, operand, context);
  }
  return objects;
}

std::vector<RenderedOperand> Render(const Context& context) {
  std::vector<RenderedOperand> rendered;
  for (const Operand& operand : context.operands) {
    RenderedOperand entry{.operand = &operand, .objects = std::vector<Object>{}};
    entry.mode = operand.ModeOf(context.policy);
    const bool enabled = entry.mode == Mode::kEnabled;
    if (entry.mode == Mode::kDelegated && !context.facts.driver_objects) {
      // There is nobody to leave the operand to: it is an error, and what stands stays.
      entry.mode = Mode::kEnabled;
      entry.objects = base::Fail(base::Invalid("InvalidPolicy", std::string(kNoDriverObjects)));
    }
    entry.daemonsets_withheld = enabled && context.facts.gpu_nodes == 0;
    if (enabled) {
      entry.objects = RenderObjects(operand, context);
      entry.left_alone = LeftAlone(operand, context);
    }
    rendered.push_back(std::move(entry));
  }
  return rendered;
}

References ReferencesOf(const api::ClusterPolicy& policy) {
  References references;
  if (policy.driver_enabled() && !policy.driver.use_nvidia_driver_crd) {
    AddIfNamed(references.config_maps, policy.driver.kernel_module_config);
    AddIfNamed(references.config_maps, policy.driver.repo_config);
    AddIfNamed(references.config_maps, policy.driver.cert_config);
    AddIfNamed(references.config_maps, policy.driver.virtual_topology_config);
    AddIfNamed(references.config_maps, policy.driver.licensing.config_map_name);
    AddIfNamed(references.secrets, policy.driver.licensing.secret_name);
    AddIfNamed(references.secrets, policy.driver.secret_env);
  }
  if (policy.sandbox.enabled && policy.vgpu_manager.enabled.value_or(false)) {
    AddIfNamed(references.config_maps, policy.vgpu_manager.kernel_module_config);
  }
  return references;
}

std::map<std::string, std::string> MissingNamespaceLabels(const api::ClusterPolicy& policy,
                                                          const Facts& facts,
                                                          const Object& current) {
  std::map<std::string, std::string> missing;
  const auto label = [&](std::string_view key) {
    return codec::FindString(current, {"metadata", "labels", key});
  };
  // On OpenShift, namespaces that people made are labelled by OpenShift.
  const bool recommended =
      codec::FindString(current, {"metadata", "name"}) == "nvidia-gpu-operator";
  if (facts.openshift() && !recommended) return missing;
  if (policy.psa_enabled) {
    for (const char* mode : {"enforce", "audit", "warn"}) {
      const std::string key = fmt::format("pod-security.kubernetes.io/{}", mode);
      if (label(key) != "privileged") missing[key] = "privileged";
    }
  }
  constexpr const char* kMonitoring = "openshift.io/cluster-monitoring";
  // A value that is there already is somebody's decision.
  if (facts.openshift() && label(kMonitoring).empty()) missing[kMonitoring] = "true";
  return missing;
}

}  // namespace pitcrew::desired
