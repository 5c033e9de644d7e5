// Whether the engine has taken what was written for it: by its own dump of its configuration, by
// the runtimes that it tells the kubelet, by Docker's answer to GET /info
// (runtimes-and-distributions.md 1.8, 12 #3, #8).
#pragma once

#include <vector>

#include "base/deadline.h"
#include "base/result.h"
#include "io/stop.h"
#include "node/toolkit/engine.h"
#include "node/toolkit/options.h"

namespace pitcrew::node::toolkit {

// What the engine would make of the files now, before it is restarted: containerd's dump of the
// files; of CRI-O in its mode hook, the folders in which it looks for hooks. Where no dump can be
// had, nothing is known and the restart has to tell.
base::Status CheckFiles(const EngineOptions& options, const std::vector<Runtime>& runtimes);

// What the engine that has been restarted says. kInvalid "RuntimeHandlerMissing" names the runtimes
// that it does not offer, "EngineConfigNotEffective" what it has instead of ours.
base::Status CheckRunning(const EngineOptions& options, const std::vector<Runtime>& runtimes,
                          const io::StopToken& stop, base::Deadline deadline);

}  // namespace pitcrew::node::toolkit
