// The container toolkit as an NRI plugin: management containers get their GPUs without any change
// of the container engine's configuration (container-toolkit.md 4.17).
#pragma once

#include "base/result.h"
#include "io/stop.h"
#include "node/toolkit/options.h"

namespace pitcrew::node::toolkit {

// Serves until the stop (success), or until a container runtime that NRI cannot serve answers
// (kUnsupported "NriNotSupported"). A socket that is not there yet, or not any more, is waited for.
base::Status RunNriPlugin(const NriOptions& options, const io::StopToken& stop);

}  // namespace pitcrew::node::toolkit
