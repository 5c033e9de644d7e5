// Host engine of the Data Center GPU Manager (reference operand-manifests.md section 11).
#include "api/labels.h"
#include "desired/daemonset.h"
#include "desired/operands/operands.h"
#include "desired/pod.h"

namespace pitcrew::desired {
namespace {

constexpr std::string_view kImage = "DCGM_IMAGE";
constexpr std::string_view kContainer = "nvidia-dcgm-ctr";

Mode ModeOf(const api::ClusterPolicy& policy) {
  return policy.dcgm_enabled() ? Mode::kEnabled : Mode::kDisabled;
}

base::Status Customize(std::vector<Object>& objects, const Context& context) {
  const api::Component& dcgm = context.policy.dcgm;
  TRY_ASSIGN(Object * daemonset, RequireDaemonSet(objects));
  TRY(ApplyValidationInitContainers(*daemonset, context));
  TRY(ApplyComponent(*daemonset, kContainer, dcgm, kImage, context));
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
          .name = "DCGM",
          .daemonsets = {"nvidia-dcgm"},
          .deploy = {.key = api::kDeployDcgm, .workloads = kContainers},
          .stage = Stage::kMetrics,
          .gpu_client = GpuClient::kPaused,
          .leaves_for = {NodeChange::kMig},
          .images = {kImage},
          .blocks = {"spec.dcgm", "spec.validator"},
          .mode = ModeOf,
          .customize = Customize};
}

}  // namespace pitcrew::desired
