// Control daemon of CUDA's Multi-Process Service (reference operand-manifests.md section 10). Its
// settings are those of the device plugin, without args and env.
#include "api/labels.h"
#include "desired/daemonset.h"
#include "desired/host_path.h"
#include "desired/operands/operands.h"
#include "desired/pod.h"

namespace pitcrew::desired {
namespace {

constexpr std::string_view kContainer = "mps-control-daemon-ctr";
constexpr std::string_view kMounts = "mps-control-daemon-mounts";
constexpr std::string_view kDefaultMpsRoot = "/run/nvidia/mps";

Mode ModeOf(const api::ClusterPolicy& policy) {
  return policy.device_plugin_enabled() ? Mode::kEnabled : Mode::kDisabled;
}

base::Status Customize(std::vector<Object>& objects, const Context& context) {
  const api::DevicePlugin& plugin = context.policy.device_plugin;
  TRY_ASSIGN(Object * daemonset, RequireDaemonSet(objects));
  TRY(ApplyValidationInitContainers(*daemonset, context));
  api::Component component = plugin;
  component.args.clear();
  TRY(ApplyComponent(*daemonset, kContainer, component, kDevicePluginImage, context));
  TRY_ASSIGN(Object * main, RequireContainer(*daemonset, kContainer));
  TRY_ASSIGN(Object * mounts, RequireContainer(*daemonset, kMounts));
  (*mounts)["image"] = (*main)["image"];
  (*mounts)["imagePullPolicy"] = (*main)["imagePullPolicy"];
  SetResources(*mounts, plugin.resources);
  TRY(ApplyPluginConfig(*daemonset, kContainer, plugin.resources, context));
  ApplyRuntimeClass(*daemonset, context, kContainer);
  // Removing config-manager may have moved the containers.
  TRY_ASSIGN(main, RequireContainer(*daemonset, kContainer));
  ApplyMigEnv(*main, context.policy);
  if (const std::string& root = plugin.mps_root; !root.empty() && root != kDefaultMpsRoot) {
    SetHostPath(*daemonset, "mps-root", root);
    SetHostPath(*daemonset, "mps-shm", JoinPath(root, "shm"));
  }
  if (plugin.host_network) UseHostNetwork(*daemonset);
  return {};
}

}  // namespace

Operand MpsControlDaemon() {
  return {.state = "state-mps-control-daemon",
          .condition = "MPSControlDaemonReady",
          .title = "MPS control daemon",
          .name = "MPS control daemon",
          .daemonsets = {"nvidia-device-plugin-mps-control-daemon"},
          .deploy = {.key = api::kDeployDevicePlugin, .workloads = kContainers},
          .node_label = api::kMpsCapable,
          .stage = Stage::kPlugin,
          .gpu_client = GpuClient::kPausedWithOthers,
          .images = {kDevicePluginImage},
          .blocks = {"spec.devicePlugin", "spec.mig", "spec.validator"},
          .mode = ModeOf,
          .customize = Customize};
}

}  // namespace pitcrew::desired
