// What is removed from a node when the operator leaves the cluster: a pure function of the Node.
//
// Upstream leaves all of it behind (operator-behaviour.md sections 14 and 21). Here a node keeps
// what a person wrote, and what belongs to others:
// - deploy labels with a value that only a person writes ("false"), nvidia.com/gpu.deploy.operands,
//   nvidia.com/gpu.workload.config, nvidia.com/gpu-driver-upgrade.skip, the annotation
//   nvidia.com/gpu-driver-upgrade-requested, and a nvidia.com/mig.config that names a layout: they
//   are settings, which a new installation should find again;
// - labels of feature discovery and of node feature discovery, which the latter's master removes
//   when the NodeFeature that asked for them goes with its owner, or its own clean-up.
#pragma once

#include "codec/json.h"
#include "desired/node_labels.h"

namespace pitcrew::desired {

struct NodeCleanup {
  // A label that a driver manager or a layout manager had paused gets a person's value back;
  // everything else is removed.
  Changes labels;
  Changes annotations;
  // The node is cordoned for a driver upgrade that nobody will finish, by the operator or by a
  // driver manager.
  bool uncordon = false;
  // Its GPUs have not been qualified, and nobody will (qualification_gate.h).
  bool release = false;

  [[nodiscard]] bool empty() const {
    return labels.empty() && annotations.empty() && !uncordon && !release;
  }
  bool operator==(const NodeCleanup&) const = default;
};

// The node is cordoned, and a driver upgrade did it (driver-lifecycle.md section 2.3): not a person
// before it, nor another operator (requestor mode).
bool IsCordonedForUpgrade(const Node& node);

// From a whole Node object.
NodeCleanup DecideCleanup(const codec::Json& node);

// Whether DecideCleanup would remove anything, as far as the operator's projection of the node
// tells: what it does not hold is only there beside labels that it holds.
bool HasTraces(const Node& node);

// The merge patch that carries it out on the Node that it was decided from. Where it changes
// taints, which are one list, it holds only for the version of the Node that was read.
codec::Json CleanupPatch(const NodeCleanup& cleanup, const codec::Json& node);

}  // namespace pitcrew::desired
