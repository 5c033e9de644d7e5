// Pods of virtual machines that have this node's GPUs: by what their processes have open, for what
// such a pod asks for is called by the model of the GPU or the type of the vGPU.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "codec/json.h"
#include "node/driver_manager/options.h"

namespace pitcrew::node::driver_manager {

// Those of `pods` of which a process has a VFIO device of NVIDIA's open: a GPU, a virtual function,
// a mediated device. kDenied "ProcessesHidden" when nobody can tell.
base::Result<std::vector<codec::Json>> PodsWithMachines(const Options& options,
                                                        const std::vector<codec::Json>& pods);

// The UID of the pod that a control group of the kubelet is of, from /proc/<pid>/cgroup; "" for
// others. By systemd's names ("kubepods-burstable-pod0f..._..._....slice") and by plain ones
// ("/kubepods/burstable/pod0f...-...").
std::string PodUidOf(std::string_view cgroup);

}  // namespace pitcrew::node::driver_manager
