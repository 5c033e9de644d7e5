// Pods of this node that the kubelet could not start before the container engine had our runtimes.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "io/stop.h"
#include "kube/client.h"

namespace pitcrew::node::toolkit {

// Annotation that is set on them, to the time of the change.
inline constexpr std::string_view kRuntimeConfigured = "nvidia.com/gpu-operator.runtime-configured";

// A pod with a runtime class that the engine does not know fails, and the kubelet tries again 10 to
// 15 seconds later. A change of the pod makes it try at once: this sets kRuntimeConfigured on the
// pods of `namespace_name` that have a runtime class, are pending, and are on the node of
// `own_pod`. Returns how many; kNotFound when there is no such pod.
base::Result<std::size_t> RetryWaitingPods(kube::Client& client, const std::string& namespace_name,
                                           const std::string& own_pod, const io::StopToken& stop);

// The same with this pod's service account and name; only logs when that is not possible, because
// the kubelet tries again by itself.
void RetryWaitingPods(const io::StopToken& stop);

}  // namespace pitcrew::node::toolkit
