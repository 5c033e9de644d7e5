// Takes from a node what the operator and its operands left there.
#pragma once

#include <string>

#include "base/result.h"
#include "io/stop.h"
#include "kube/client.h"

namespace pitcrew::gpu_operator {

// Reads the node and removes what desired::DecideCleanup says. Success when the node is gone
// already.
base::Status CleanUpNode(kube::Client& client, const std::string& node, const io::StopToken& stop);

}  // namespace pitcrew::gpu_operator
