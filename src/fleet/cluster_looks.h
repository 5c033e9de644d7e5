// Looks of the table of cluster_rules.cc that stand in files of their own.
#pragma once

#include <cstddef>
#include <vector>

#include "fleet/rules.h"

namespace pitcrew::fleet::look {

// So many nodes or pods are named as evidence; of the others only how many they are.
constexpr std::size_t kMostNamed = 5;

// One for each image that pods of the operator's namespace wait for; first the one that most do.
std::vector<Seen> ImagesMissing(const Cluster& cluster);
// One for each DaemonSet whose pods are replaced only when somebody deletes them, and of which some
// are of a former version. Drivers that the operator upgrades are UpgradeHeld's.
std::vector<Seen> PodsOutdated(const Cluster& cluster);

// NVIDIADrivers that select the same nodes, and selectors that cannot be followed.
std::vector<Seen> DriversConflict(const Cluster& cluster);
// NVIDIADrivers that the operator cannot carry out.
std::vector<Seen> DriversFail(const Cluster& cluster);
// GPU nodes for containers that no NVIDIADriver is for.
std::vector<Seen> NodesWithoutDriver(const Cluster& cluster);

// Nodes that wait for the upgrade of their driver, where none begins: because of the policy's
// limits, because too many have failed, or because somebody keeps them off.
std::vector<Seen> UpgradeHeld(const Cluster& cluster);

}  // namespace pitcrew::fleet::look
