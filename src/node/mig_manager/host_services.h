// Services of the host: those that use its GPUs where the driver is the host's own (mig-manager.md
// 9.5), and the one that divides them at a boot (section 14).
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "io/stop.h"
#include "node/mig_manager/options.h"

namespace pitcrew::node::mig_manager {

// Where the host has a MIG service of its own (options.state_file is there): it makes `config` from
// its next start on, for which systemd reads its unit anew. Else it would bring the configuration
// before back.
base::Status TellHostService(const Options& options, const std::string& config);

// Stops those of `services` that run, in this order, and the kubelet last when a MIG mode changes.
// Nothing without options.shutdown_host_clients, nor on a node without systemd. What was stopped is
// written down on the host first, so that it starts again also after this process was killed. On an
// error some may have been stopped.
base::Status StopHostServices(const Options& options, const std::vector<std::string>& services,
                              bool changes_modes, const io::StopToken& stop);

// Starts what StopHostServices has stopped, in the opposite order, and nothing else: upstream may
// start units that a person has switched off (section 15, weakness 8). Goes on after failures, and
// returns them all. Nothing to start is success.
base::Status StartHostServices(const Options& options);

}  // namespace pitcrew::node::mig_manager
