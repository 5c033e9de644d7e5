// MIG manager (reference operand-manifests.md section 14).
#include "api/labels.h"
#include "desired/daemonset.h"
#include "desired/node_labels.h"
#include "desired/operands/operands.h"
#include "desired/pod.h"

namespace pitcrew::desired {
namespace {

constexpr std::string_view kImage = "MIG_MANAGER_IMAGE";
constexpr std::string_view kContainer = "nvidia-mig-manager";
constexpr std::string_view kDefaultConfig = "default-mig-parted-config";
constexpr std::string_view kDefaultClients = "default-gpu-clients";

Mode ModeOf(const api::ClusterPolicy& policy) {
  return policy.mig_manager_enabled() ? Mode::kEnabled : Mode::kDisabled;
}

// A ConfigMap of another name takes the place of a default one, which then is not ours to touch.
bool LeavesAlone(const Object& object, const Context& context) {
  if (codec::FindString(object, {"kind"}) != "ConfigMap") return false;
  const api::MigManager& manager = context.policy.mig_manager;
  const auto replaces = [&](const std::string& custom, std::string_view standard) {
    return NameOf(object) == standard && !custom.empty() && custom != standard;
  };
  return replaces(manager.config_name, kDefaultConfig) ||
         replaces(manager.gpu_clients_config_name, kDefaultClients);
}

// The manager works out a node's configurations itself where nobody brings some; the default file
// is what it falls back on, and carries another name so that it can tell.
void MountConfig(Object& daemonset, Object& main, const std::string& config_map) {
  if (!config_map.empty()) {
    SetVolume(daemonset, ConfigMapVolume("mig-parted-config", config_map, {}));
    SetEnv(main, "CONFIG_FILE", "/mig-parted-config/config.yaml");
    return;
  }
  Object volume = ConfigMapVolume("mig-parted-config", kDefaultConfig, {});
  volume["configMap"]["items"] =
      Object::array({{{"key", "config.yaml"}, {"path", "config-default.yaml"}}});
  SetVolume(daemonset, std::move(volume));
  SetEnv(main, "DEFAULT_CONFIG_FILE", "/mig-parted-config/config-default.yaml");
}

base::Status Customize(std::vector<Object>& objects, const Context& context) {
  const api::ClusterPolicy& policy = context.policy;
  const api::MigManager& manager = policy.mig_manager;
  TRY_ASSIGN(Object * daemonset, RequireDaemonSet(objects));
  TRY(ApplyValidationInitContainers(*daemonset, context));
  TRY(ApplyComponent(*daemonset, kContainer, manager, kImage, context));
  TRY_ASSIGN(Object * main, RequireContainer(*daemonset, kContainer));
  ApplyRuntimeClass(*daemonset, context, kContainer);
  MountConfig(*daemonset, *main, manager.config_name);
  if (!manager.gpu_clients_config_name.empty()) {
    SetVolume(*daemonset, ConfigMapVolume("gpu-clients", manager.gpu_clients_config_name, {}));
  }
  if (policy.cdi.enabled) {
    SetEnv(*main, "CDI_ENABLED", "true");
    if (policy.toolkit_enabled()) {
      SetEnv(*main, "NVIDIA_CDI_HOOK_PATH", CdiHookPath(policy));
    }
  }
  SetEnv(*main, manager.env);
  if (manager.host_network) UseHostNetwork(*daemonset);
  return {};
}

}  // namespace

Operand MigManager() {
  return {
      .state = "state-mig-manager",
      .condition = "MIGManagerReady",
      .title = "MIG manager",
      .name = "MIG manager",
      .daemonsets = {"nvidia-mig-manager"},
      .deploy = {.key = api::kDeployMigManager, .workloads = kContainers, .only_on = IsMigCapable},
      .stage = Stage::kAllocatable,
      .gpu_client = GpuClient::kPaused,
      .pauses_with = api::kPausedForMigChange,
      .images = {kImage},
      .blocks = {"spec.migManager", "spec.toolkit", "spec.validator"},
      .mode = ModeOf,
      .customize = Customize,
      .leaves_alone = LeavesAlone};
}

}  // namespace pitcrew::desired
