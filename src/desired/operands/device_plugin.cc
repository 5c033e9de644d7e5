// Device plugin (reference operand-manifests.md section 9).
#include "api/labels.h"
#include "desired/daemonset.h"
#include "desired/host_path.h"
#include "desired/operands/operands.h"
#include "desired/pod.h"

namespace pitcrew::desired {
namespace {

constexpr std::string_view kContainer = "nvidia-device-plugin";
constexpr std::string_view kDefaultMpsRoot = "/run/nvidia/mps";

Mode ModeOf(const api::ClusterPolicy& policy) {
  return policy.device_plugin_enabled() ? Mode::kEnabled : Mode::kDisabled;
}

void ApplyCdi(Object& main, const api::ClusterPolicy& policy) {
  if (!policy.cdi.enabled) return;
  SetEnv(main, "CDI_ENABLED", "true");
  SetEnv(main, "DEVICE_LIST_STRATEGY", "cdi-annotations,cdi-cri");
  SetEnv(main, "CDI_ANNOTATION_PREFIX", "cdi.k8s.io/");
  if (policy.toolkit_enabled()) {
    SetEnv(main, "NVIDIA_CDI_HOOK_PATH", CdiHookPath(policy));
  }
}

base::Status Customize(std::vector<Object>& objects, const Context& context) {
  const api::ClusterPolicy& policy = context.policy;
  TRY_ASSIGN(Object * daemonset, RequireDaemonSet(objects));
  TRY(ApplyValidationInitContainers(*daemonset, context));
  TRY(ApplyComponent(*daemonset, kContainer, policy.device_plugin, kDevicePluginImage, context));
  TRY_ASSIGN(Object * main, RequireContainer(*daemonset, kContainer));
  if (policy.gds_enabled()) {
    SetEnv(*main, "GDS_ENABLED", "true");
    SetEnv(*main, "MOFED_ENABLED", "true");
  }
  if (policy.gdrcopy_enabled()) SetEnv(*main, "GDRCOPY_ENABLED", "true");
  TRY(ApplyPluginConfig(*daemonset, kContainer, policy.device_plugin.resources, context));
  ApplyRuntimeClass(*daemonset, context, kContainer);
  // Removing config-manager may have moved the containers.
  TRY_ASSIGN(main, RequireContainer(*daemonset, kContainer));
  ApplyMigEnv(*main, policy);
  ApplyCdi(*main, policy);
  if (const std::string& root = policy.device_plugin.mps_root;
      !root.empty() && root != kDefaultMpsRoot) {
    SetHostPath(*daemonset, "mps-root", root);
    SetHostPath(*daemonset, "mps-shm", JoinPath(root, "shm"));
    SetEnv(*main, "MPS_ROOT", root);
  }
  SetEnv(*main, policy.device_plugin.env);
  if (policy.device_plugin.host_network) UseHostNetwork(*daemonset);
  return {};
}

}  // namespace

Operand DevicePlugin() {
  return {.state = "state-device-plugin",
          .condition = "DevicePluginReady",
          .title = "device plugin",
          .name = "device plugin",
          .daemonsets = {"nvidia-device-plugin-daemonset"},
          .deploy = {.key = api::kDeployDevicePlugin, .workloads = kContainers},
          .stage = Stage::kPlugin,
          .gpu_client = GpuClient::kPaused,
          .leaves_for = {NodeChange::kMig},
          .images = {kDevicePluginImage},
          .blocks = {"spec.devicePlugin", "spec.mig", "spec.gds", "spec.gdrcopy", "spec.toolkit",
                     "spec.validator"},
          .mode = ModeOf,
          .customize = Customize};
}

}  // namespace pitcrew::desired
