// What the operator would permit virtual machines in KubeVirt or HyperConverged
// (kubevirt/decision.h), and what goes when it leaves.
#pragma once

#include <vector>

#include "desired/policy_view.h"
#include "gpu/device_names.h"
#include "plan/cluster.h"
#include "plan/plan.h"
#include "snapshot/live.h"
#include "snapshot/snapshot.h"

namespace pitcrew::plan {

inline constexpr std::string_view kPermittedDevices = "permitted devices";

// What to read of a live cluster, after the definitions that QueriesOfCluster asks for.
std::vector<snapshot::Query> QueriesOfPermittedDevices(const snapshot::Snapshot& snapshot);

// Over nodes as they will be labelled. What nobody wants goes, though the operator waits a while
// first.
void PlanPermittedDevices(const snapshot::Snapshot& snapshot, const desired::PolicyView& policy,
                          const PlannedCluster& cluster, const gpu::DeviceNames& names, Plan& plan);
void PlanRestore(const snapshot::Snapshot& snapshot, Plan& plan);

}  // namespace pitcrew::plan
