// Which pods of a node use its GPUs, and which of them may be evicted (driver-lifecycle.md 4.8).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "codec/json.h"
#include "io/stop.h"
#include "kube/client.h"
#include "node/driver_manager/options.h"

namespace pitcrew::node::driver_manager {

// Whether a container of the pod asks for nvidia.com/gpu* or nvidia.com/mig-*, and the pod still
// runs.
bool UsesGpu(const codec::Json& pod);

struct EvictionPlan {
  std::vector<kube::ObjectKey> evict;
  std::vector<std::string> refused;  // why a pod that uses a GPU may not be evicted
};
// Pods of DaemonSets are not counted: they end with their operand's pause.
EvictionPlan PlanEviction(const std::vector<codec::Json>& pods, const Options& options);

// Evicts them all and waits until they are gone. Nothing is evicted when one of them may not be.
base::Status EvictGpuPods(const Options& options, const std::shared_ptr<kube::Client>& client,
                          const io::StopToken& stop);

}  // namespace pitcrew::node::driver_manager
