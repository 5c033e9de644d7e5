// What a plan would do to drivers that run: which are started again, on which nodes pods are sent
// away for that, how many at a time, and how long it takes by the last measured times.
#pragma once

#include <string>
#include <vector>

#include "api/cluster_policy.h"
#include "plan/cluster.h"
#include "plan/drivers.h"
#include "plan/node_upgrade.h"
#include "plan/plan.h"
#include "snapshot/snapshot.h"

namespace pitcrew::plan {

// One for the drivers of each upgrade policy that would change, without their pods. `items` are
// those of the plan.
std::vector<DriverUpgrade> DriverUpgradesOf(const snapshot::Snapshot& snapshot,
                                            const api::ClusterPolicy& policy,
                                            const WantedDrivers& drivers,
                                            const PlannedCluster& cluster,
                                            const std::vector<Item>& items,
                                            const std::string& operator_namespace);

// What it comes to; a sentence without a full stop.
std::string NoteOf(const DriverUpgrade& upgrade);
// "evicts 14 pods on 9 nodes; ..."; "" where no pods leave, or it is not known.
std::string PodsText(const DriverUpgrade& upgrade);

}  // namespace pitcrew::plan
