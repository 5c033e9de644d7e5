// Device plugins for virtual machines: one for KubeVirt, one for Kata Containers (reference
// operand-manifests.md section 20). They differ in nothing but their settings.
#include "desired/daemonset.h"
#include "desired/operands/operands.h"
#include "desired/pod.h"

namespace pitcrew::desired {
namespace {

Mode ModeOf(const Context& context, const api::Component& component, std::string_view mode) {
  const api::SandboxWorkloads& sandbox = context.policy.sandbox;
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
          .blocks = {"spec.sandboxDevicePlugin", "spec.sandboxWorkloads", "spec.validator"},
          .mode =
              [](const Context& context) {
                return ModeOf(context, context.policy.sandbox_device_plugin, "kubevirt");
              },
          .customize =
              [](std::vector<Object>& objects, const Context& context) {
                return Customize(objects, context, context.policy.sandbox_device_plugin,
                                 "nvidia-sandbox-device-plugin-ctr", "SANDBOX_DEVICE_PLUGIN_IMAGE");
              }};
}

Operand KataDevicePlugin() {
  return {.state = "state-kata-device-plugin",
          .condition = "KataDevicePluginReady",
          .title = "device plugin for Kata Containers",
          .blocks = {"spec.kataSandboxDevicePlugin", "spec.sandboxWorkloads", "spec.validator"},
          .mode =
              [](const Context& context) {
                return ModeOf(context, context.policy.kata_sandbox_device_plugin, "kata");
              },
          .customize =
              [](std::vector<Object>& objects, const Context& context) {
                return Customize(objects, context, context.policy.kata_sandbox_device_plugin,
                                 "nvidia-kata-sandbox-device-plugin-ctr",
                                 "KATA_SANDBOX_DEVICE_PLUGIN_IMAGE");
              }};
}

}  // namespace pitcrew::desired
