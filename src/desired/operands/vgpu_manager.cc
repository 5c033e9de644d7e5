// vGPU manager: the driver of hosts whose GPUs are shared between virtual machines (reference
// operand-manifests.md section 16).
#include "api/labels.h"
#include "desired/daemonset.h"
#include "desired/operands/driver_files.h"
#include "desired/operands/driver_manager.h"
#include "desired/operands/driver_variant.h"
#include "desired/operands/operands.h"
#include "desired/pod.h"

namespace pitcrew::desired {
namespace {

constexpr std::string_view kImage = "VGPU_MANAGER_IMAGE";
constexpr std::string_view kContainer = "nvidia-vgpu-manager-ctr";
constexpr std::string_view kToolkit = "openshift-driver-toolkit-ctr";

Mode ModeOf(const api::ClusterPolicy& policy) {
  if (policy.driver.use_nvidia_driver_crd) return Mode::kDelegated;
  return policy.sandbox.enabled && policy.vgpu_manager.enabled.value_or(false) ? Mode::kEnabled
                                                                               : Mode::kDisabled;
}

base::Status CustomizeDaemonSet(Object& daemonset, const Context& context, const OsRelease& os) {
  const api::VgpuManager& manager = context.policy.vgpu_manager;
  TRY(ApplyDriverManager(daemonset, manager.driver_manager, manager.resources, context));
  TRY(ApplyComponent(daemonset, kContainer, manager, kImage, context));
  TRY_ASSIGN(Object * main, RequireContainer(daemonset, kContainer));
  (*main)["image"] = WithOsTag((*main)["image"].get<std::string>(), os);
  if (context.facts.openshift()) {
    SetEnv(*main, "OPENSHIFT_VERSION", context.facts.openshift_version);
  }
  SetEnv(*main, manager.env);
  if (!manager.kernel_module_config.empty()) {
    TRY(MountConfigMapKeys(daemonset, *main, context, "spec.vgpuManager.kernelModuleConfig.name",
                           manager.kernel_module_config, "/drivers"));
  }
  if (manager.host_network) UseHostNetwork(daemonset);
  return {};
}

base::Status Customize(std::vector<Object>& objects, const Context& context) {
  TRY_ASSIGN(Object * manifest, RequireDaemonSet(objects));
  OsRelease os;
  if (context.facts.os) {
    TRY_ASSIGN(os, *context.facts.os);
  }
  TRY(CustomizeDaemonSet(*manifest, context, os));
  if (!UsesDriverToolkit(context)) {
    RemoveContainer(*manifest, kToolkit);
    return {};
  }
  const Object base = std::move(*manifest);
  std::erase_if(objects, [&](const Object& object) { return &object == manifest; });
  for (const std::string& version : context.facts.rhcos_versions) {
    Object daemonset = base;
    TRY(MakeDriverToolkitVariant(daemonset, version, context.policy.vgpu_manager.resources,
                                 context));
    objects.push_back(std::move(daemonset));
  }
  return {};
}

}  // namespace

Operand VgpuManager() {
  return {.state = "state-vgpu-manager",
          .condition = "VGPUManagerReady",
          .title = "vGPU manager",
          .name = "vGPU manager",
          .daemonsets = {"nvidia-vgpu-manager-daemonset"},
          .deploy = {.key = api::kDeployVgpuManager, .workloads = {.vgpu = true}},
          .stage = Stage::kDriver,
          .leaves_for = {NodeChange::kCc},
          .owns_gpus = true,
          .images = {kImage, kDriverManagerImage},
          .blocks = {"spec.vgpuManager", "spec.sandboxWorkloads", "spec.gds", "spec.gdrcopy"},
          .mode = ModeOf,
          .customize = Customize};
}

}  // namespace pitcrew::desired
