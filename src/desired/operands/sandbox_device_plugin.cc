// Device plugins for virtual machines: one for KubeVirt, one for Kata Containers (reference
// operand-manifests.md section 20). They differ in nothing but their settings.
#include "api/labels.h"
#include "desired/daemonset.h"
#include "desired/operands/operands.h"
#include "desired/pod.h"

namespace pitcrew::desired {
namespace {

constexpr std::string_view kImage = "SANDBOX_DEVICE_PLUGIN_IMAGE";
constexpr std::string_view kKataImage = "KATA_SANDBOX_DEVICE_PLUGIN_IMAGE";
// Values of spec.sandboxWorkloads.mode.
constexpr std::string_view kKubevirt = "kubevirt";
constexpr std::string_view kKata = "kata";

Mode ModeOf(const api::SandboxWorkloads& sandbox, const api::Component& component,
            std::string_view mode) {
  return sandbox.enabled && sandbox.mode == mode && component.enabled.value_or(false)
             ? Mode::kEnabled
             : Mode::kDisabled;
}

base::Status Customize(std::vector<Object>& objects, const Context& context,
                       const api::Component& component, std::string_view container,
                       std::string_view image_variable) {
  TRY_ASSIGN(Object * daemonset, RequireDaemonSet(objects));
  TRY(ApplyValidationInitContainers(*daemonset, context));
  TRY(ApplyComponent(*daemonset, container, component, image_variable, context));
  TRY_ASSIGN(Object * main, RequireContainer(*daemonset, container));
  SetEnv(*main, component.env);
  if (component.host_network) UseHostNetwork(*daemonset);
  return {};
}

}  // namespace

Operand SandboxDevicePlugin() {
  return {.state = "state-sandbox-device-plugin",
          .condition = "SandboxDevicePluginReady",
          .title = "device plugin for virtual machines",
          .name = "sandbox device plugin",
          .daemonsets = {"nvidia-sandbox-device-plugin-daemonset"},
          .deploy = {.key = api::kDeploySandboxDevicePlugin,
                     .workloads = kMachines,
                     .on_divided_nodes = true,
                     .sandbox_mode = kKubevirt},
          .stage = Stage::kPlugin,
          .gpu_client = GpuClient::kPaused,
          .leaves_for = {NodeChange::kVgpu, NodeChange::kCc},
          .images = {kImage},
          .blocks = {"spec.sandboxDevicePlugin", "spec.sandboxWorkloads", "spec.validator"},
          .mode =
              [](const api::ClusterPolicy& policy) {
                return ModeOf(policy.sandbox, policy.sandbox_device_plugin, kKubevirt);
              },
          .customize =
              [](std::vector<Object>& objects, const Context& context) {
                return Customize(objects, context, context.policy.sandbox_device_plugin,
                                 "nvidia-sandbox-device-plugin-ctr", kImage);
              }};
}

Operand KataDevicePlugin() {
  return {.state = "state-kata-device-plugin",
          .condition = "KataDevicePluginReady",
          .title = "device plugin for Kata Containers",
          .name = "Kata device plugin",
          .daemonsets = {"nvidia-kata-sandbox-device-plugin-daemonset"},
          .deploy = {.key = api::kDeployKataSandboxDevicePlugin,
                     .workloads = {.passthrough = true},
                     .on_divided_nodes = true,
                     .sandbox_mode = kKata},
          .stage = Stage::kPlugin,
          // Upstream forgets it.
          .leaves_for = {NodeChange::kCc},
          .images = {kKataImage},
          .blocks = {"spec.kataSandboxDevicePlugin", "spec.sandboxWorkloads", "spec.validator"},
          .mode =
              [](const api::ClusterPolicy& policy) {
                return ModeOf(policy.sandbox, policy.kata_sandbox_device_plugin, kKata);
              },
          .customize =
              [](std::vector<Object>& objects, const Context& context) {
                return Customize(objects, context, context.policy.kata_sandbox_device_plugin,
                                 "nvidia-kata-sandbox-device-plugin-ctr", kKataImage);
              }};
}

}  // namespace pitcrew::desired
