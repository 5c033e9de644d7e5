// Leaving KubeVirt and HyperConverged as they were before devices were permitted there.
#pragma once

#include <chrono>

#include "base/result.h"
#include "io/stop.h"
#include "kube/client.h"

namespace pitcrew::gpu_operator {

// Takes away what kubevirt::DecideRestore says; virtual machines that run go on. Where there is no
// right to look, as without --manage-kubevirt, nothing was permitted by us, which is no
// error. kConflict when others change the objects until the deadline.
base::Status RestorePermittedDevices(kube::Client& client,
                                     std::chrono::steady_clock::time_point deadline,
                                     const io::StopToken& stop);

}  // namespace pitcrew::gpu_operator
