// Objects of the Prometheus operator: they exist only where the cluster serves their kinds
// (reference operand-manifests.md section 2).
#pragma once

#include <optional>
#include <vector>

#include "desired/operand.h"

namespace pitcrew::desired {

// Leaves out ServiceMonitors and PrometheusRules that the cluster does not know; the
// ServiceMonitors that stay look at the operator's namespace.
void FitMonitoring(std::vector<Object>& objects, const Context& context);

// Labels, and interval, timeout, honorLabels and relabelings of the first endpoint, from a
// `serviceMonitor` block of the policy. Nothing without one.
void EditServiceMonitor(std::vector<Object>& objects, const std::optional<codec::Json>& settings);

}  // namespace pitcrew::desired
