// Which nodes may begin their upgrade: the limits of the policy over all nodes with a driver
// (driver-lifecycle.md section 2.7). Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/cluster_policy.h"
#include "api/upgrade_state.h"
#include "desired/node.h"

namespace pitcrew::driver_upgrade {

// A node with a driver pod, as far as the limits look at it.
struct Member {
  std::string name;
  api::UpgradeState state = api::UpgradeState::kNone;
  bool skipped = false;        // label kUpgradeSkip
  bool unschedulable = false;  // it begins without a place
  bool not_ready = false;
  bool granted = false;  // it has a place, which its state does not show yet
};
Member MemberOf(const desired::Node& node);

struct Wave {
  // Of the metrics (driver-lifecycle.md section 2.17).
  int total = 0;
  int in_progress = 0;  // without those that failed
  int done = 0;
  int failed = 0;
  int pending = 0;
  int unavailable = 0;
  int available = 0;  // places for nodes that have not begun

  int max_unavailable = 0;
  int max_failed = 0;
  // Nodes that may begin now, in the order of `members`.
  std::vector<std::string> granted = {};
  // Why no node that waits may begin, as a sentence without a full stop; "" when one may, or none
  // waits.
  std::string held = {};
};

// Failures do not take places of maxParallelUpgrades; but when more than one in ten nodes (one in
// small clusters) has failed, no other begins. A failed node is cordoned, and so counts for
// maxUnavailable.
Wave PlanWave(const std::vector<Member>& members, const api::UpgradePolicy& policy);

}  // namespace pitcrew::driver_upgrade
