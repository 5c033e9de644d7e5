// Metrics about OpenShift's driver toolkit, from which drivers are built there (reference
// operator-behaviour.md section 2).
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "api/cluster_policy.h"
#include "desired/facts.h"

namespace pitcrew::gpu_operator {

// By the name after "gpu_operator_openshift_driver_toolkit_".
std::vector<std::pair<std::string_view, int>> DriverToolkitMetrics(const api::ClusterPolicy& policy,
                                                                   const desired::Facts& facts);

}  // namespace pitcrew::gpu_operator
