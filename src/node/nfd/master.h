// The master: merges the NodeFeature objects of each node onto the Node (node-feature-discovery.md
// 8).
#pragma once

#include <memory>

#include "base/result.h"
#include "io/stop.h"
#include "kube/client.h"
#include "node/nfd/master_config.h"

namespace pitcrew::node::nfd {

// Follows NodeFeatures and Nodes until the stop. One node is one key; a node is patched only when
// it differs.
base::Status RunMaster(std::shared_ptr<kube::Client> client, const MasterConfig& config,
                       const io::StopToken& stop);

// Takes everything off all nodes that a master of this instance has put there.
base::Status PruneNodes(kube::Client& client, const MasterConfig& config,
                        const io::StopToken& stop);

}  // namespace pitcrew::node::nfd
