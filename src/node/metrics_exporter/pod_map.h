// Which pods have which devices (metrics-exporter.md section 6).
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "node/metrics_exporter/claimed_devices.h"
#include "node/metrics_exporter/series.h"
#include "node/metrics_exporter/text.h"
#include "rpc/pod_resources.h"

namespace pitcrew::node::metrics_exporter {

enum class GpuIdType { kUuid, kDeviceName };

struct PodMapOptions {
  std::vector<std::string> resource_names = {};  // beside nvidia.com/gpu and nvidia.com/mig-*
  GpuIdType id_type = GpuIdType::kUuid;
  bool virtual_gpus = false;   // one series for each replica of a shared GPU
  bool old_namespace = false;  // pod_name, pod_namespace, container_name
  bool pod_uids = false;
};

// What the API server knows of a pod.
struct PodFacts {
  std::string uid;
  Attributes labels;  // as label names, allowed ones only, by name
  bool operator==(const PodFacts&) const = default;
};
using PodFactsByName = std::map<std::string, PodFacts, std::less<>>;  // "namespace/name"

// The keys by which series are looked up, of one device id of the kubelet: the id itself and what
// follows from it (6.3).
std::vector<std::string> KeysOf(std::string_view device_id, const Round& round);
// The number of a replica: 3 of "GPU-...::3"; nothing for a device that is not shared.
std::string ReplicaOf(std::string_view device_id);
// Without "::3" or "/vgpu3".
std::string_view WithoutReplica(std::string_view device_id);
bool CountsAsGpu(std::string_view resource, const PodMapOptions& options);

// Pods that share a device are all its owners, whether they asked for it or claim it: `published`
// tells which devices claims mean. A MIG device's owner is that of its instance; only where the
// round has no series of the instance, that of its GPU, as upstream's. `facts` has the pods' UIDs
// and labels, as far as they are known; `uid_of_process` the UID of the pod that a process of this
// node belongs to.
OwnersOf MapOwners(const Round& round, const std::vector<rpc::PodDevices>& pods,
                   const PodFactsByName& facts,
                   const std::map<unsigned, std::string>& uid_of_process,
                   const PodMapOptions& options, const PublishedDevices& published = {});

// The pod's UID in the paths of /proc/<pid>/cgroup; empty when the process is in no pod (6.5).
std::string PodUidOfCgroups(std::string_view cgroups);

}  // namespace pitcrew::node::metrics_exporter
