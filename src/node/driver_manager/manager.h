// Takes an old driver off a node before a driver container starts (driver-lifecycle.md 4.3).
#pragma once

#include <memory>

#include "base/result.h"
#include "io/stop.h"
#include "kube/client.h"
#include "node/driver_manager/hands.h"
#include "node/driver_manager/options.h"

namespace pitcrew::node::driver_manager {

// What was seen on the node decides what is done.
struct NodeState {
  bool driver_loaded = false;    // kernel module nvidia
  bool driver_kept = false;      // loaded, and made from the very configuration that is wanted
  bool upgrade_managed = false;  // the operator's upgrade controller evicts, not we
  bool dra_driver = false;       // GPUs are given out by dynamic resource allocation
  bool passthrough = false;      // the node's GPUs are for virtual machines: VFIO is to have them
  bool vgpus = false;            // the node's GPUs are to be cut into vGPUs
  // Pods are there that validated the node for another use of its GPUs than the one that it has
  // now.
  bool validated_for_another_use = false;
  Hands hands;
};
// kUnknown module states are errors: nothing is unloaded on a guess.
base::Result<NodeState> ObserveNode(const Options& options, const codec::Json& node);

// On success the node is ready for a driver container. On failure the operands run again as far as
// this program had paused them.
base::Status UninstallDriver(const Options& options, const std::shared_ptr<kube::Client>& client,
                             const io::StopToken& stop);

}  // namespace pitcrew::node::driver_manager
