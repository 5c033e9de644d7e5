// What a plan says of drivers that run: on which nodes one is exchanged or started again, and what
// becomes of the pods there.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/cluster_policy.h"

namespace pitcrew::plan {

enum class DriverChange {
  kUpgraded,    // another driver: the node is cordoned, and pods leave it
  kRestarted,   // the same driver in another pod template
  kHandedOver,  // the same pod under another DaemonSet
};
std::string_view ToString(DriverChange change);

struct NodeUpgrade {
  std::string node;
  DriverChange change = DriverChange::kUpgraded;
  bool skipped = false;  // label nvidia.com/gpu-driver-upgrade.skip: it does not begin

  // Of kUpgraded, "namespace/name":
  std::vector<std::string> waits_for = {};  // waitForCompletion: they have not ended
  std::vector<std::string> evicted = {};
  bool drained = false;  // pods with GPUs may not be deleted: the node is drained
  // Why pods may not be deleted (gpuPodDeletion), and why it may not be drained either.
  std::vector<std::string> refused = {};
  std::vector<std::string> drain_refused = {};
  bool fails = false;  // the upgrade stops there, and nothing is evicted
  // Of `evicted`, those that a disruption budget would keep now, and which.
  std::vector<std::string> kept = {};
};

// The drivers of one upgrade policy.
struct DriverUpgrade {
  std::string whose;  // "driver", or "NVIDIADriver inference"
  int nodes_with_driver = 0;
  api::UpgradePolicy policy;
  bool automatic = false;            // autoUpgrade
  std::vector<NodeUpgrade> nodes;    // those that change, by name
  std::string at_once;               // how many at a time, or why none may begin
  std::string how_long;              // "" where none may begin
  std::string pods_unknown = {};     // why it is not known which pods go; "" when it is
  std::string budgets_unknown = {};  // why it is not known which of these budgets would keep
  std::string note = {};             // NoteOf it, as it stands in Plan::notes

  [[nodiscard]] int Count(DriverChange change) const;
  // Pods leave nodes by themselves.
  [[nodiscard]] bool evicts() const { return automatic && Count(DriverChange::kUpgraded) > 0; }
};

}  // namespace pitcrew::plan
