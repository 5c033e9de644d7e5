// Exporter of the node's status (reference operand-manifests.md section 15).
#include "api/labels.h"
#include "desired/daemonset.h"
#include "desired/operands/monitoring.h"
#include "desired/operands/operands.h"
#include "desired/pod.h"

namespace pitcrew::desired {
namespace {

constexpr std::string_view kContainer = "nvidia-node-status-exporter";

Mode ModeOf(const api::ClusterPolicy& policy) {
  return policy.node_status_exporter.enabled.value_or(false) ? Mode::kEnabled : Mode::kDisabled;
}

base::Status Customize(std::vector<Object>& objects, const Context& context) {
  const api::Component& exporter = context.policy.node_status_exporter;
  TRY_ASSIGN(Object * daemonset, RequireDaemonSet(objects));
  TRY(ApplyComponent(*daemonset, kContainer, exporter, kValidatorImage, context));
  TRY_ASSIGN(Object * main, RequireContainer(*daemonset, kContainer));
  SetEnv(*main, exporter.env);
  RunAsRoot(*main);
  if (exporter.host_network) UseHostNetwork(*daemonset);
  FitMonitoring(objects, context);
  return {};
}

}  // namespace

Operand NodeStatusExporter() {
  return {.state = "state-node-status-exporter",
          .condition = "NodeStatusExporterReady",
          .title = "node status exporter",
          .name = "node status exporter",
          .daemonsets = {"nvidia-node-status-exporter"},
          .deploy = {.key = api::kDeployNodeStatusExporter, .workloads = kContainers},
          .stage = Stage::kMetrics,
          .images = {kValidatorImage},
          .blocks = {"spec.nodeStatusExporter"},
          .mode = ModeOf,
          .customize = Customize};
}

}  // namespace pitcrew::desired
