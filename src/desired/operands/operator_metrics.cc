// Metrics of the operator itself (reference operand-manifests.md section 5).
#include "desired/operands/monitoring.h"
#include "desired/operands/operands.h"

namespace pitcrew::desired {
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
          .name = "operator metrics",
          .blocks = {},
          .mode = nullptr,
          .customize = Customize};
}

}  // namespace pitcrew::desired
