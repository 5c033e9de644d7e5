// VFIO manager: hands GPUs to vfio-pci for virtual machines (reference operand-manifests.md
// section 19).
#include "api/labels.h"
#include "desired/daemonset.h"
#include "desired/operands/driver_manager.h"
#include "desired/operands/operands.h"
#include "desired/pod.h"

namespace pitcrew::desired {
namespace {

constexpr std::string_view kImage = "VFIO_MANAGER_IMAGE";
constexpr std::string_view kContainer = "nvidia-vfio-manager";

Mode ModeOf(const api::ClusterPolicy& policy) {
  return policy.sandbox.enabled && policy.vfio_manager.enabled.value_or(false) ? Mode::kEnabled
                                                                               : Mode::kDisabled;
}

base::Status Customize(std::vector<Object>& objects, const Context& context) {
  const api::VfioManager& manager = context.policy.vfio_manager;
  TRY_ASSIGN(Object * daemonset, RequireDaemonSet(objects));
  TRY(ApplyDriverManager(*daemonset, manager.driver_manager, manager.resources, context));
  TRY(ApplyComponent(*daemonset, kContainer, manager, kImage, context));
  TRY_ASSIGN(Object * main, RequireContainer(*daemonset, kContainer));
  // Here the variable says where the host is mounted, whatever path of the host that is; the common
  // setting has just put the host's path into it.
  SetEnv(*main, "HOST_ROOT", "/host");
  SetEnv(*main, manager.env);
  if (manager.host_network) UseHostNetwork(*daemonset);
  return {};
}

}  // namespace

Operand VfioManager() {
  return {.state = "state-vfio-manager",
          .condition = "VFIOManagerReady",
          .title = "VFIO manager",
          .name = "VFIO manager",
          .daemonsets = {"nvidia-vfio-manager"},
          .deploy = {.key = api::kDeployVfioManager, .workloads = {.passthrough = true}},
          .stage = Stage::kDriver,
          .rank_in_stage = -1,
          .leaves_for = {NodeChange::kCc},
          .owns_gpus = true,
          .images = {kImage, kDriverManagerImage},
          .blocks = {"spec.vfioManager", "spec.sandboxWorkloads"},
          .mode = ModeOf,
          .customize = Customize};
}

}  // namespace pitcrew::desired
