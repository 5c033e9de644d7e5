// Confidential computing manager (reference operand-manifests.md section 21).
#include "api/cc_mode.h"
#include "api/labels.h"
#include "desired/daemonset.h"
#include "desired/operands/operands.h"
#include "desired/pod.h"

namespace pitcrew::desired {
namespace {

constexpr std::string_view kImage = "CC_MANAGER_IMAGE";
constexpr std::string_view kContainer = "nvidia-cc-manager";

Mode ModeOf(const api::ClusterPolicy& policy) {
  return policy.sandbox.enabled && policy.sandbox.mode == "kata" &&
                 policy.cc_manager.enabled.value_or(false)
             ? Mode::kEnabled
             : Mode::kDisabled;
}

base::Status Customize(std::vector<Object>& objects, const Context& context) {
  const api::CcManager& manager = context.policy.cc_manager;
  TRY_ASSIGN(Object * daemonset, RequireDaemonSet(objects));
  TRY(ApplyComponent(*daemonset, kContainer, manager, kImage, context));
  TRY_ASSIGN(Object * main, RequireContainer(*daemonset, kContainer));
  if (!manager.default_mode.empty()) SetEnv(*main, "DEFAULT_CC_MODE", manager.default_mode);
  SetEnv(*main, manager.env);
  if (manager.host_network) UseHostNetwork(*daemonset);
  return {};
}

}  // namespace

Operand CcManager() {
  return {.state = "state-cc-manager",
          .condition = "CCManagerReady",
          .title = "confidential computing manager",
          .name = "CC manager",
          .daemonsets = {"nvidia-cc-manager"},
          .deploy = {.key = api::kDeployCcManager, .workloads = kMachines},
          .stage = Stage::kAllocatable,
          .pauses_with = api::kPausedForCcChange,
          .images = {kImage},
          .blocks = {"spec.ccManager", "spec.sandboxWorkloads"},
          .mode = ModeOf,
          .customize = Customize};
}

}  // namespace pitcrew::desired
