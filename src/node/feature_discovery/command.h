// The program gpu-feature-discovery.
#pragma once

namespace pitcrew::node::feature_discovery {

// Labels the node until SIGTERM, SIGINT or SIGQUIT; SIGHUP reads the configuration again. 0 after a
// stop or a --oneshot that worked, 1 on an error.
int Command(int argc, char** argv);

}  // namespace pitcrew::node::feature_discovery
