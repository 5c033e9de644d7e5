// vGPU device manager (reference operand-manifests.md section 17).
#include "api/labels.h"
#include "desired/daemonset.h"
#include "desired/operands/operands.h"
#include "desired/pod.h"

namespace pitcrew::desired {
namespace {

constexpr std::string_view kImage = "VGPU_DEVICE_MANAGER_IMAGE";
constexpr std::string_view kContainer = "nvidia-vgpu-device-manager";
constexpr std::string_view kDefaultConfig = "default-vgpu-devices-config";

Mode ModeOf(const api::ClusterPolicy& policy) {
  return policy.sandbox.enabled && policy.vgpu_device_manager.enabled.value_or(false)
             ? Mode::kEnabled
             : Mode::kDisabled;
}

// A ConfigMap of another name takes the place of the default one, which then is not ours to touch.
bool LeavesAlone(const Object& object, const Context& context) {
  const std::string& custom = context.policy.vgpu_device_manager.config_name;
  return codec::FindString(object, {"kind"}) == "ConfigMap" && NameOf(object) == kDefaultConfig &&
         !custom.empty() && custom != kDefaultConfig;
}

base::Status Customize(std::vector<Object>& objects, const Context& context) {
  const api::VgpuDeviceManager& manager = context.policy.vgpu_device_manager;
  TRY_ASSIGN(Object * daemonset, RequireDaemonSet(objects));
  TRY(ApplyValidationInitContainers(*daemonset, context));
  TRY(ApplyComponent(*daemonset, kContainer, manager, kImage, context));
  TRY_ASSIGN(Object * main, RequireContainer(*daemonset, kContainer));
  SetEnv(*main, manager.env);
  if (!manager.config_name.empty()) {
    SetVolume(*daemonset, ConfigMapVolume("vgpu-config", manager.config_name, {}));
  }
  // After the user's variables: the policy's choice wins here.
  SetEnv(*main, "DEFAULT_VGPU_CONFIG",
         manager.config_default.empty() ? "default" : manager.config_default);
  if (manager.host_network) UseHostNetwork(*daemonset);
  return {};
}

}  // namespace

Operand VgpuDeviceManager() {
  return {.state = "state-vgpu-device-manager",
          .condition = "VGPUDeviceManagerReady",
          .title = "vGPU device manager",
          .name = "vGPU device manager",
          .daemonsets = {"nvidia-vgpu-device-manager"},
          .deploy = {.key = api::kDeployVgpuDeviceManager, .workloads = {.vgpu = true}},
          .stage = Stage::kDriver,
          .gpu_client = GpuClient::kPaused,
          .leaves_for = {NodeChange::kCc},
          .pauses_with = api::kPausedForVgpuChange,
          .images = {kImage},
          .blocks = {"spec.vgpuDeviceManager", "spec.sandboxWorkloads", "spec.validator"},
          .mode = ModeOf,
          .customize = Customize,
          .leaves_alone = LeavesAlone};
}

}  // namespace pitcrew::desired
