// Metrics of the operator itself (reference operand-manifests.md section 5).
#include "operator/operands/monitoring.h"
#include "operator/operands/operands.h"

namespace pitcrew::gpu_operator {
namespace {

// The ServiceMonitor cannot be switched off here: `enabled` of its settings has no effect.
base::Status Customize(std::vector<Object>& objects, const Context& context) {
  FitMonitoring(objects, context);
  EditServiceMonitor(objects, context.policy.operator_settings.metrics_service_monitor);
  return {};
}

}  // namespace

Operand OperatorMetrics() {
  return {.state = "state-operator-metrics",
          .condition = "OperatorMetricsReady",
          .title = "operator metrics",
          .blocks = {},
          .mode = nullptr,
          .customize = Customize};
}

}  // namespace pitcrew::gpu_operator
