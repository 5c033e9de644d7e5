// How far the roll-out of changed drivers is (driver_upgrade/wave.h): of the ClusterPolicy's, or of
// each NVIDIADriver's by its own policy.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "driver_upgrade/wave.h"
#include "fleet/cluster.h"
#include "fleet/report.h"

namespace pitcrew::fleet {

// Whose nodes go by which policy.
struct UpgradePool {
  std::string driver;  // name of the NVIDIADriver; "": the ClusterPolicy's driver
  const api::UpgradePolicy* policy = nullptr;  // borrowed from the cluster
  bool enabled = false;
  // What the operator says, if it cannot go on; null when it can. Borrowed likewise.
  const Condition* stopped = nullptr;

  // "ClusterPolicy cluster-policy", "NVIDIADriver training".
  [[nodiscard]] std::string Object(const Cluster& cluster) const;
  [[nodiscard]] std::string PolicyPath() const;
  // What to do where the image of that container of its new driver's pods cannot be had.
  [[nodiscard]] std::string AdviceOnImage(std::string_view container) const;
  [[nodiscard]] bool Has(const Node& node) const;
};
std::vector<UpgradePool> UpgradePoolsOf(const Cluster& cluster);
// The pool that upgrades the pods of a driver's DaemonSet; none when nobody does.
std::optional<UpgradePool> UpgraderOf(const Cluster& cluster, const DaemonSet& daemonset);

// Over the nodes of the pool that have a state.
driver_upgrade::Wave WaveOf(const Cluster& cluster, const UpgradePool& pool);
// None where no node is in another state than done.
std::optional<UpgradeReport> DescribeUpgrade(const Cluster& cluster);
// Each NVIDIADriver, by name.
std::vector<DriverReport> DescribeDrivers(const Cluster& cluster);

}  // namespace pitcrew::fleet
