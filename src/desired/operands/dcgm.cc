// Host engine of the Data Center GPU Manager (reference operand-manifests.md section 11).
#include "desired/daemonset.h"
#include "desired/operands/operands.h"
#include "desired/pod.h"

namespace pitcrew::desired {
namespace {

constexpr std::string_view kContainer = "nvidia-dcgm-ctr";

Mode ModeOf(const Context& context) {
  return context.policy.dcgm_enabled() ? Mode::kEnabled : Mode::kDisabled;
}

base::Status Customize(std::vector<Object>& objects, const Context& context) {
  const api::Component& dcgm = context.policy.dcgm;
  TRY_ASSIGN(Object * daemonset, RequireDaemonSet(objects));
  TRY(ApplyValidationInitContainers(*daemonset, context));
  TRY(ApplyComponent(*daemonset, kContainer, dcgm, "DCGM_IMAGE", context));
  TRY_ASSIGN(Object * main, RequireContainer(*daemonset, kContainer));
  SetEnv(*main, dcgm.env);
  ApplyRuntimeClass(*daemonset, context, kContainer);
  if (dcgm.host_network) UseHostNetwork(*daemonset);
  return {};
}

}  // namespace

Operand Dcgm() {
  return {.state = "state-dcgm",
          .condition = "DCGMReady",
          .title = "DCGM host engine",
          .blocks = {"spec.dcgm", "spec.validator"},
          .mode = ModeOf,
          .customize = Customize};
}

}  // namespace pitcrew::desired
