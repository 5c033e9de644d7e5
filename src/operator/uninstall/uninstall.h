// Uninstallation: deletes ClusterPolicies with all that the cluster has because of them, also where
// no operator runs any more.
//
// There is no finalizer on the policy on purpose: where the operator is gone first (its Deployment,
// its namespace), a finalizer would hold the policy, its definition and the namespace for ever.
// Instead the running operator cleans up when it sees a deletion, owner references do when it does
// not, and the chart runs this before it removes the operator.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "codec/json.h"
#include "desired/node_labels.h"
#include "io/stop.h"
#include "kube/client.h"

namespace pitcrew::gpu_operator {

struct UninstallOptions {
  std::string operator_namespace;
  // Names of the policies that go; those that do not exist are gone already.
  std::vector<std::string> policies;
  bool all_policies = false;  // and all NVIDIADrivers
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
};

// Deletes the policies (with all_policies the NVIDIADrivers too), then all that they own; and when
// no policy is left, takes from the nodes what desired/node_cleanup.h says, from the namespace what
// the operator set there, and from KubeVirt and HyperConverged the devices that it permitted.
// kTimeout at the deadline; may be repeated.
base::Status Uninstall(const std::shared_ptr<kube::Client>& client, const UninstallOptions& options,
                       const io::StopToken& stop);

}  // namespace pitcrew::gpu_operator
