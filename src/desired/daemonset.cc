#include "desired/daemonset.h"

#include <fmt/format.h>

#include <limits>

#include "api/labels.h"
#include "api/qualification.h"
#include "base/strings.h"
#include "desired/host_path.h"
#include "desired/pod.h"

namespace pitcrew::desired {
namespace {

constexpr std::string_view kDefaultDriverInstallDir = "/run/nvidia/driver";

base::Status ApplyUpdateStrategy(Object& daemonset, const api::DaemonSetSettings& settings) {
  Object& spec = daemonset["spec"];
  if (settings.update_strategy == "OnDelete") {
    spec["updateStrategy"] = {{"type", "OnDelete"}};
    return {};
  }
  const std::string& text = settings.max_unavailable;
  if (text.empty() || NameOf(daemonset).starts_with(api::kDriverDaemonSet)) return {};
  Object max_unavailable = text;
  if (!text.ends_with('%')) {
    const auto number = base::ParseInteger(text);
    if (!number || *number < std::numeric_limits<std::int32_t>::min() ||
        *number > std::numeric_limits<std::int32_t>::max()) {
      return base::Fail(base::Invalid(
          "InvalidMaxUnavailable",
          fmt::format("spec.daemonsets.rollingUpdate.maxUnavailable: \"{}\" is neither a number "
                      "nor a percentage such as \"10%\"",
                      text)));
    }
    max_unavailable = *number;
  }
  spec["updateStrategy"] = {{"type", "RollingUpdate"},
                            {"rollingUpdate", {{"maxUnavailable", std::move(max_unavailable)}}}};
  return {};
}

// Operands come to a node before its GPUs have passed: they are what proves them.
void TolerateQualification(Object& pod) {
  pod["tolerations"].push_back({{"key", api::kNotQualifiedTaint},
                                {"operator", "Exists"},
                                {"effect", api::kNotQualifiedEffect}});
}

void ApplyHostRoot(Object& daemonset, const std::string& root) {
  if (root.empty() || root == "/") return;
  if (SetHostPath(daemonset, "host-root", root)) {
    for (Object* container : AllContainers(daemonset)) SetEnv(*container, "HOST_ROOT", root);
  }
  SetHostPath(daemonset, "host-dev-char", JoinPath(root, "dev/char"));
}

void ApplyDriverInstallDir(Object& daemonset, const std::string& directory) {
  if (directory.empty() || directory == kDefaultDriverInstallDir) return;
  if (!SetHostPath(daemonset, "driver-install-dir", directory)) return;
  Object* validation = FindContainer(daemonset, "driver-validation");
  if (validation == nullptr) return;
  SetEnv(*validation, "DRIVER_INSTALL_DIR", directory);
  SetEnv(*validation, "DRIVER_INSTALL_DIR_CTR_PATH", directory);
  if (Object* mount = FindMount(*validation, "driver-install-dir"))
    (*mount)["mountPath"] = directory;
}

// Whether operand pods carry a runtime class at all.
bool WantsRuntimeClass(const Context& context) {
  const api::Cdi& cdi = context.policy.cdi;
  if (cdi.nri_plugin_enabled) return false;
  return cdi.enabled || context.facts.runtime() != Runtime::kCrio;
}

base::Status ConfigureConfigManager(Object& daemonset, std::string_view name,
                                    const Context& context) {
  const api::DevicePlugin& plugin = context.policy.device_plugin;
  TRY_ASSIGN(Object * manager, RequireContainer(daemonset, name));
  TRY_ASSIGN((*manager)["image"], ResolveImage(plugin.image, kDevicePluginImage, context.images));
  if (!plugin.image.pull_policy.empty()) {
    (*manager)["imagePullPolicy"] = PullPolicy(plugin.image.pull_policy);
  }
  SetEnv(*manager, "DEFAULT_CONFIG", plugin.config_default);
  SetEnv(*manager, "FALLBACK_STRATEGIES", "empty");
  AddMount(*manager, {.volume = "config", .path = "/config"});
  AddMount(*manager, {.volume = plugin.config_name, .path = "/available-configs"});
  return {};
}

}  // namespace

base::Result<Object*> RequireContainer(Object& daemonset, std::string_view name) {
  if (Object* container = FindContainer(daemonset, name)) return container;
  return base::Fail(
      base::Internal("ContainerMissing",
                     fmt::format("manifest of {} has no container {}", NameOf(daemonset), name)));
}

base::Result<Object*> RequireDaemonSet(std::vector<Object>& objects) {
  if (Object* daemonset = FindObject(objects, "DaemonSet")) return daemonset;
  return base::Fail(base::Internal("DaemonSetMissing", "the manifests hold no DaemonSet"));
}

base::Status ApplyCommonConfig(Object& daemonset, const Context& context) {
  const api::DaemonSetSettings& settings = context.policy.daemonsets;
  TRY(ApplyUpdateStrategy(daemonset, settings));
  Object& pod = PodSpec(daemonset);
  if (!settings.priority_class_name.empty()) {
    pod["priorityClassName"] = settings.priority_class_name;
  }
  if (!settings.tolerations.empty()) pod["tolerations"] = settings.tolerations;
  if (context.policy.validator.qualification_required) TolerateQualification(pod);
  if (settings.pod_security_context) pod["securityContext"] = *settings.pod_security_context;
  ApplyHostRoot(daemonset, context.policy.host_paths.root_fs);
  ApplyDriverInstallDir(daemonset, context.policy.host_paths.driver_install_dir);
  return {};
}

void ApplyCommonMetadata(Object& daemonset, const api::ClusterPolicy& policy) {
  for (const auto& [key, value] : policy.daemonsets.labels) {
    SetLabel(daemonset, key, value);
    if (key != api::kAppLabel && key != api::kPartOfLabel) {
      SetLabel(PodTemplate(daemonset), key, value);
    }
  }
  for (const auto& [key, value] : policy.daemonsets.annotations) {
    SetAnnotation(daemonset, key, value);
    SetPodAnnotation(daemonset, key, value);
  }
}

base::Status ApplyComponent(Object& daemonset, std::string_view container,
                            const api::Component& component, std::string_view image_variable,
                            const Context& context) {
  TRY_ASSIGN(Object * main, RequireContainer(daemonset, container));
  TRY_ASSIGN((*main)["image"], ResolveImage(component.image, image_variable, context.images));
  (*main)["imagePullPolicy"] = PullPolicy(component.image.pull_policy);
  AddPullSecrets(daemonset, component.image.pull_secrets);
  for (Object* each : MainContainers(daemonset)) SetResources(*each, component.resources);
  SetArgs(*main, component.args);
  return {};
}

base::Result<Object*> ApplyValidator(std::vector<Object>& objects, std::string_view container,
                                     const Context& context) {
  const api::Validator& validator = context.policy.validator;
  TRY_ASSIGN(Object * daemonset, RequireDaemonSet(objects));
  TRY(ApplyComponent(*daemonset, container, validator, kValidatorImage, context));
  TRY_ASSIGN(Object * main, RequireContainer(*daemonset, container));
  SetEnv(*main, validator.env);
  RunAsRoot(*main);
  if (validator.host_network) UseHostNetwork(*daemonset);
  return daemonset;
}

base::Status ApplyValidationInitContainers(Object& daemonset, const Context& context) {
  const api::Validator& validator = context.policy.validator;
  for (Object* container : InitContainers(daemonset)) {
    const std::string name = NameOf(*container);
    if (!name.contains("validation")) continue;
    TRY_ASSIGN((*container)["image"],
               ResolveImage(validator.image, kValidatorImage, context.images));
    if (!validator.image.pull_policy.empty()) {
      (*container)["imagePullPolicy"] = PullPolicy(validator.image.pull_policy);
    }
    SetResources(*container, validator.resources);
    RunAsRoot(*container);
    if (name.starts_with("driver")) SetEnv(*container, validator.driver_env);
    if (name.starts_with("toolkit")) SetEnv(*container, validator.toolkit_env);
    AddPullSecrets(daemonset, validator.image.pull_secrets);
  }
  return {};
}

void ApplyRuntimeClass(Object& daemonset, const Context& context,
                       std::string_view annotated_container) {
  if (WantsRuntimeClass(context)) {
    const std::string& name = context.policy.operator_settings.runtime_class;
    PodSpec(daemonset)["runtimeClassName"] = name.empty() ? "nvidia" : name;
  }
  if (context.policy.cdi.nri_plugin_enabled && !annotated_container.empty()) {
    SetPodAnnotation(
        daemonset, fmt::format("{}{}", api::kNriCdiContainerAnnotationPrefix, annotated_container),
        api::kManagementCdiDevice);
  }
}

std::string CdiHookPath(const api::ClusterPolicy& policy) {
  const std::string& directory = policy.toolkit.install_dir;
  return JoinPath(directory.empty() ? kDefaultToolkitInstallDir : directory,
                  "toolkit/nvidia-cdi-hook");
}

void ApplyMigEnv(Object& container, const api::ClusterPolicy& policy) {
  const std::string& strategy = policy.mig_strategy;
  if (!strategy.empty()) SetEnv(container, "MIG_STRATEGY", strategy);
  if (strategy != "none") SetEnv(container, "NVIDIA_MIG_MONITOR_DEVICES", "all");
}

base::Status ApplyPluginConfig(Object& daemonset, std::string_view container,
                               const std::optional<codec::Json>& init_resources,
                               const Context& context) {
  constexpr std::string_view kInitManager = "config-manager-init";
  constexpr std::string_view kManager = "config-manager";
  const std::string& config_map = context.policy.device_plugin.config_name;
  if (config_map.empty()) {
    RemoveContainer(daemonset, kInitManager);
    RemoveContainer(daemonset, kManager);
    return {};
  }
  TRY_ASSIGN(Object * main, RequireContainer(daemonset, container));
  SetEnv(*main, "CONFIG_FILE", "/config/config.yaml");
  AddMount(*main, {.volume = "config", .path = "/config"});
  AddMount(*main, {.volume = config_map, .path = "/available-configs"});

  TRY(ConfigureConfigManager(daemonset, kInitManager, context));
  TRY(ConfigureConfigManager(daemonset, kManager, context));
  SetResources(*FindContainer(daemonset, kInitManager), init_resources);

  Object& pod = PodSpec(daemonset);
  if (!pod.value("hostPID", false)) pod["shareProcessNamespace"] = true;
  SetVolume(daemonset, ConfigMapVolume(config_map, config_map, {}));
  SetVolume(daemonset, {{"name", "config"}, {"emptyDir", Object::object()}});
  return {};
}

}  // namespace pitcrew::desired
