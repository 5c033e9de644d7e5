// How far the roll-out of a changed driver is (driver_upgrade/wave.h).
#pragma once

#include <optional>

#include "driver_upgrade/wave.h"
#include "fleet/cluster.h"
#include "fleet/report.h"

namespace pitcrew::fleet {

// The active policy lets the operator upgrade drivers.
bool UpgradesDrivers(const Cluster& cluster);
// Over the nodes with a state.
driver_upgrade::Wave WaveOf(const Cluster& cluster);
// None where no node is in another state than done.
std::optional<UpgradeReport> DescribeUpgrade(const Cluster& cluster);

}  // namespace pitcrew::fleet
