// Whose drivers are upgraded by which policy: all of the ClusterPolicy's, or those of each
// NVIDIADriver by its own (driver-lifecycle.md section 2.2). The limits and the schedule of a
// policy hold for its own nodes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/cluster_policy.h"
#include "desired/node.h"
#include "operator/watches/world.h"

namespace pitcrew::gpu_operator {

struct UpgradePool {
  std::string
      driver;  // name of the NVIDIADriver; "": the ClusterPolicy's driver, which is for all nodes
  bool enabled = false;
  api::UpgradePolicy policy;
  // Where `policy` stands in its object.
  std::string path;
  // What is wanted cannot be told. `problem` says why where no condition does: an annotation that
  // cannot be used.
  bool unclear = false;
  std::string problem;

  bool operator==(const UpgradePool&) const = default;
};

// None while it is not known, or not to be done.
std::vector<UpgradePool> UpgradePoolsOf(const World& world);

// The pool of a node. None: nobody says what is wanted, and the node stays as it is. Not enabled:
// what an upgrade did to the node is taken back.
std::optional<UpgradePool> UpgradePoolOf(const World& world, const desired::Node& node);

// Whether the upgrade goes by the same in both.
bool IsSameForUpgrades(const desired::PolicyView& a, const desired::PolicyView& b);
bool IsSameForUpgrades(const desired::DriverView& a, const desired::DriverView& b);

}  // namespace pitcrew::gpu_operator
