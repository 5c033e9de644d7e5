// Pods that have GPUs of a node for what the node was for before: containers, whole GPUs in virtual
// machines, vGPUs. A pod that only asked for a GPU and has none of its devices open keeps no driver
// from changing; it would stay on the node without its GPU. So all of them leave before any GPU
// changes hands.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "io/stop.h"
#include "kube/client.h"
#include "node/driver_manager/options.h"

namespace pitcrew::node::driver_manager {

// Whose GPUs are about to be taken away.
struct FormerUse {
  bool containers = false;  // pods that ask for nvidia.com/gpu* or nvidia.com/mig-*, or hold claims
  bool passthrough = false;  // virtual machines with whole GPUs
  bool vgpus = false;        // virtual machines with vGPUs

  [[nodiscard]] bool any() const { return containers || passthrough || vgpus; }
};

struct LeavingSteps {
  std::function<base::Status()> before_evictions;    // cordons the node
  std::function<void(const base::Error& why)> tell;  // who holds the change up, when that changes
};

// Evicts those pods where options.evict_gpu_pods, under disruption budgets, and waits until they
// are gone. None is evicted while one of them may not be (it has no controller, or an emptyDir, and
// the options do not say that such pods may go): those are told and waited for. kUnavailable
// "GpuPodsRemain" names each, with what would let it go, at options.users_timeout. Pods of
// DaemonSets leave too: they come back, and wait for a GPU.
base::Status LetFormerUsersLeave(const Options& options,
                                 const std::shared_ptr<kube::Client>& client, const FormerUse& use,
                                 const LeavingSteps& steps, const io::StopToken& stop);

}  // namespace pitcrew::node::driver_manager
