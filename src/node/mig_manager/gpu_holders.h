// Which pods of a node hold GPUs whose geometry is to change. Pure.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "codec/json.h"
#include "rpc/pod_resources.h"

namespace pitcrew::node::mig_manager {

using Uuids = std::set<std::string, std::less<>>;
// The GPU of every device that the plugin offers, by the device's UUID; a whole GPU is its own.
using GpuOfDevice = std::map<std::string, std::string, std::less<>>;

struct HolderFacts {
  // Of the kubelet; nothing when it does not tell: then every pod that uses a GPU may hold any.
  std::optional<std::vector<rpc::PodDevices>> devices;
  GpuOfDevice gpu_of_device;
  Uuids changing;  // GPUs
  // Whether a pod that has not ended has an allocated claim for a GPU (workload::UsesGpu).
  std::function<bool(const codec::Json& pod)> claims_gpu;
};

// Those of `pods` that hold one, or may: one that the kubelet has not admitted yet, one with a
// claim, and one with a device that is not known, count. Borrowed from `pods`.
std::vector<const codec::Json*> FindHolders(const std::vector<const codec::Json*>& pods,
                                            const HolderFacts& facts);

// One of `pods` with a GPU that the kubelet has acknowledged and yet does not list: it has just
// been started, and learns of its pods one after the other. Null: there is none, or the kubelet
// does not tell. Borrowed from `pods`.
const codec::Json* FindUnlisted(const std::vector<const codec::Json*>& pods,
                                const HolderFacts& facts);

// "GPU-..." of "GPU-...::3", the id of a replica (device-plugin.md section 9).
std::string_view WithoutReplica(std::string_view device_id);

}  // namespace pitcrew::node::mig_manager
