// KubeVirt's own CustomResourceDefinitions (cluster/kubevirt_definitions.py).
#pragma once

#include <vector>

#include "base/result.h"
#include "codec/json.h"
#include "kube/client.h"

namespace pitcrew::testing {

// KubeVirt, VirtualMachine and VirtualMachineInstance. kNotFound where `make programs` has not made
// them.
base::Result<std::vector<codec::Json>> KubeVirtDefinitions();
// Installs them, and waits until they are served.
base::Status DefineKubeVirt(kube::Client& client);

}  // namespace pitcrew::testing
