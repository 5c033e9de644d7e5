// Asking for the qualification of a node's GPUs, with the rights of whoever asks, and following it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/qualification.h"
#include "base/deadline.h"
#include "base/result.h"
#include "io/stop.h"
#include "kube/client.h"
#include "qualify/pod.h"

namespace pitcrew::qualify {

// Pods that use GPUs of the node, "namespace/name".
base::Result<std::vector<std::string>> GpuPodsOn(kube::Client& client, const std::string& node,
                                                 const io::StopToken& stop);

// Tells the Node that a qualification is asked for, and creates the pod in the validator's
// namespace
// ("": where its DaemonSet is). Replaces pods of earlier qualifications that have ended. kConflict
// "AlreadyRunning", kConflict "GpuPodsRun" (unless that was allowed), kNotFound "NoValidator",
// kNotFound "NodeNotFound".
base::Result<kube::ObjectKey> Ask(kube::Client& client, const PodRequest& request,
                                  const std::string& name_space, const io::StopToken& stop);

// Until the pod has ended; what the Node then tells. kUnavailable "NotDone" when the pod ended
// without having told a result.
base::Result<api::Qualification> Follow(const std::shared_ptr<kube::Client>& client,
                                        const std::string& node, const kube::ObjectKey& pod,
                                        const io::StopToken& stop, base::Deadline deadline);

}  // namespace pitcrew::qualify
