// GPU feature discovery (reference operand-manifests.md section 13).
#include "api/labels.h"
#include "desired/daemonset.h"
#include "desired/operands/operands.h"
#include "desired/pod.h"

namespace pitcrew::desired {
namespace {

constexpr std::string_view kImage = "GFD_IMAGE";
constexpr std::string_view kContainer = "gpu-feature-discovery";

Mode ModeOf(const api::ClusterPolicy& policy) {
  return policy.gfd_enabled() ? Mode::kEnabled : Mode::kDisabled;
}

base::Status Customize(std::vector<Object>& objects, const Context& context) {
  const api::ClusterPolicy& policy = context.policy;
  TRY_ASSIGN(Object * daemonset, RequireDaemonSet(objects));
  TRY(ApplyValidationInitContainers(*daemonset, context));
  TRY(ApplyComponent(*daemonset, kContainer, policy.gfd, kImage, context));
  TRY_ASSIGN(Object * main, RequireContainer(*daemonset, kContainer));
  if (context.facts.openshift()) SetEnv(*main, "USE_NODE_FEATURE_API", "false");
  SetEnv(*main, policy.gfd.env);
  TRY(ApplyPluginConfig(*daemonset, kContainer, policy.gfd.resources, context));
  ApplyRuntimeClass(*daemonset, context, kContainer);
  // Removing config-manager may have moved the containers.
  TRY_ASSIGN(main, RequireContainer(*daemonset, kContainer));
  // After the user's variables: the policy's MIG strategy wins here.
  ApplyMigEnv(*main, policy);
  if (policy.gfd.host_network) UseHostNetwork(*daemonset);
  return {};
}

}  // namespace

Operand GpuFeatureDiscovery() {
  return {.state = "gpu-feature-discovery",
          .condition = "GPUFeatureDiscoveryReady",
          .title = "GPU feature discovery",
          .name = "feature discovery",
          .daemonsets = {"gpu-feature-discovery"},
          .deploy = {.key = api::kDeployGpuFeatureDiscovery, .workloads = kContainers},
          .stage = Stage::kMetrics,
          .rank_in_stage = -2,
          .gpu_client = GpuClient::kPaused,
          .leaves_for = {NodeChange::kMig},
          .images = {kImage},
          .blocks = {"spec.gfd", "spec.devicePlugin", "spec.mig", "spec.validator"},
          .mode = ModeOf,
          .customize = Customize};
}

}  // namespace pitcrew::desired
