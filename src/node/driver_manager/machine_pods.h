// Pods of virtual machines that have this node's GPUs: by what their processes have open, and by
// what they ask for, which is called by the model of the GPU or the type of the vGPU.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "codec/json.h"
#include "node/driver_manager/options.h"

namespace pitcrew::node::driver_manager {

enum class OpenDevices {
  kAll,        // GPUs, virtual functions, mediated devices
  kWholeGpus,  // GPUs that VFIO has
};
// UIDs of those of `pods` of which a process has a VFIO device of NVIDIA's open. None where nobody
// can tell, with a warning: what VFIO still has then is refused later.
std::set<std::string> UidsWithOpenDevices(const Options& options,
                                          const std::vector<codec::Json>& pods,
                                          OpenDevices devices = OpenDevices::kAll);

// What this node's whole GPUs and NVSwitches are called as resources for virtual machines, with
// "nvidia.com/": by their models for KubeVirt and Kata, and by the names that Kata's device plugin
// has for all of them if it is told no others.
base::Result<std::set<std::string, std::less<>>> PassthroughResources(const Options& options);

// Whether a resource is a vGPU: it is called by its type, "nvidia.com/NVIDIA_A10-24Q", and drivers
// call all types "NVIDIA ..." or "GRID ...".
bool IsVgpuResource(std::string_view resource);

// The UID of the pod that a control group of the kubelet is of, from /proc/<pid>/cgroup; "" for
// others. By systemd's names ("kubepods-burstable-pod0f..._..._....slice") and by plain ones
// ("/kubepods/burstable/pod0f...-...").
std::string PodUidOf(std::string_view cgroup);

}  // namespace pitcrew::node::driver_manager
