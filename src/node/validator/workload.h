// The pods that use a GPU for a moment in order to prove that pods can (validator.md 5).
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/result.h"
#include "codec/json.h"
#include "io/stop.h"
#include "kube/client.h"
#include "node/validator/options.h"

namespace pitcrew::node::validator {

enum class Workload { kCuda, kPlugin };

// "nvidia-cuda-validator" or "nvidia-device-plugin-validator": label app and, with "-",
// generateName.
std::string WorkloadName(Workload workload);

// The pod; `daemon_set` (nvidia-operator-validator, as the server has it) gives owners and
// tolerations. `resource` is what the plugin pod asks for.
codec::Json MakeWorkloadPod(Workload workload, const Options& options,
                            const codec::Json& daemon_set, const std::string& resource);

// Quantities by resource name: node.status.capacity or .allocatable.
using Resources = std::map<std::string, std::string>;
Resources ResourcesOf(const codec::Json& node, std::string_view part);
// The GPU resource to ask for: the first MIG resource by name, else the first GPU resource; "" when
// there is none with a count of 1 or more.
std::string ChooseGpuResource(const Resources& resources);

// What a pod's status says about its end.
struct PodProgress {
  std::string name;
  std::string phase;
  std::string detail;  // what holds it up, in words; "" when nothing does
  // The phase says so, or every container has ended well: the kubelet takes a second or two from
  // there to the phase.
  bool succeeded = false;
  bool operator==(const PodProgress&) const = default;
};
PodProgress ProgressOf(const codec::Json& pod);

// Replaces earlier pods of this kind on the node by a new one and watches it to its end.
base::Status RunWorkload(Workload workload, const Options& options,
                         const std::shared_ptr<kube::Client>& client, const io::StopToken& stop);

}  // namespace pitcrew::node::validator
