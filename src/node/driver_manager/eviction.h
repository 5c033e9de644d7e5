// Sending the pods away that use a node's GPUs (driver-lifecycle.md 4.8).
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "codec/json.h"
#include "io/stop.h"
#include "kube/client.h"
#include "node/driver_manager/options.h"
#include "workload/drain.h"

namespace pitcrew::node::driver_manager {

// How the pods of a node are drained with these options.
workload::DrainOptions DrainOptionsOf(const Options& options);

// Evicts them all and waits until they are gone. Nothing is evicted when one of them may not be:
// kUnavailable "GpuPodsNotEvictable".
base::Status EvictGpuPods(const Options& options, const std::shared_ptr<kube::Client>& client,
                          const io::StopToken& stop);

}  // namespace pitcrew::node::driver_manager
