// What makes the node's CDI specifications untrue while the toolkit runs: another MIG geometry, a
// driver that is loaded or taken out (with other device numbers), GPUs that come and go.
#pragma once

#include "host/uevent.h"
#include "io/stop.h"
#include "node/toolkit/options.h"

namespace pitcrew::node::toolkit {

// Until the stop: writes the specifications anew after each such change; where the kernel tells of
// several, once it has been quiet for a second. What cannot be written is logged, and the
// specifications of before stay: containers that run are not concerned.
void FollowNode(const Options& options, const io::StopToken& stop);

// Whether the kernel tells of a driver's module or of one of NVIDIA's PCI devices.
bool ConcernsGpus(const host::Uevent& event);

}  // namespace pitcrew::node::toolkit
