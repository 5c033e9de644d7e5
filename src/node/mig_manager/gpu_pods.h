// Pods that hold the GPUs which are to change: waited for, or drained, until a deadline (mission:
// upstream changes GPUs under running pods).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/result.h"
#include "io/stop.h"
#include "kube/client.h"
#include "node/mig_manager/gpu_holders.h"
#include "node/mig_manager/options.h"

namespace pitcrew::node::mig_manager {

struct PodWait {
  Uuids changing;  // GPUs
  GpuOfDevice gpu_of_device;
  base::Deadline deadline;
  // Told when it becomes known who holds the GPUs, and whenever that changes: "namespace/name".
  // Never with none.
  std::function<void(const std::vector<std::string>& pods, bool draining)> waits_for;
  // Told while it is not known who holds the GPUs, and why not.
  std::function<void(const base::Error& why)> unknown;
};

// Returns when no pod holds any of the GPUs. With PodPolicy::kDrain they are evicted as soon as all
// of them may be (workload::PlanDrain); until then, and with kWait, their end is waited for. While
// the kubelet or a claim cannot be read, nobody is evicted, and both are read again soon: but a
// kubelet that serves no such API, and a claim that this program may not read, do not pass, and
// every pod with a GPU, or that pod, counts then. So it does when the kubelet's socket, or one of
// its pods, is still missing after Options::kubelet_restart.
//
// kTimeout "GpuPodsStillThere" names those that are left at the deadline, with what kept each from
// going; kUnavailable "GpuPodsUnknown" when it is not known then who is left.
base::Status AwaitGpusFree(const Options& options, const std::shared_ptr<kube::Client>& client,
                           const PodWait& wait, const io::StopToken& stop);

}  // namespace pitcrew::node::mig_manager
