// What makes the node's CDI specifications untrue while the toolkit runs: another MIG geometry, a
// driver that is loaded or taken out (with other device numbers), GPUs and device nodes that come
// and go.
#pragma once

#include <string_view>

#include "host/uevent.h"
#include "io/stop.h"
#include "node/toolkit/options.h"

namespace pitcrew::node::toolkit {

// How the log names what WriteCdiSpecs returns.
inline constexpr std::string_view kIncomplete =
    "CDI specifications are without something that this node's GPUs should have";

// Until the stop: writes the specifications anew at its start, as nobody tells of what came before,
// and after each such change; where there are several, once it has been quiet for a second. Control
// nodes are made before. What cannot be written is logged when it is news, and tried again after
// ever longer pauses, up to a minute; the specifications of before stay: containers that run are
// not concerned.
void FollowNode(const Options& options, const io::StopToken& stop);

// Whether the kernel tells of a driver's module or of one of NVIDIA's PCI devices.
bool ConcernsGpus(const host::Uevent& event);

}  // namespace pitcrew::node::toolkit
