// Who else decides which driver has this node's GPUs.
#pragma once

#include <memory>

#include "base/result.h"
#include "codec/json.h"
#include "io/stop.h"
#include "kube/client.h"
#include "node/driver_manager/options.h"

namespace pitcrew::node::driver_manager {

// Waits until the pods have gone of those operands that own GPUs and that the node's labels do not
// ask for any more: driver, vGPU manager, VFIO manager of what the node was for before. Until they
// have ended they unload drivers and unbind GPUs, too. With them those that use GPUs and whose
// labels were taken away, so that nobody gives a GPU to a new pod. kTimeout "OperandsStillRunning"
// names them.
base::Status AwaitFormerOwners(const Options& options, const std::shared_ptr<kube::Client>& client,
                               const codec::Json& node, const io::StopToken& stop);

}  // namespace pitcrew::node::driver_manager
