// The config manager as a program (device-plugin.md section 19).
#pragma once

namespace pitcrew::node::config_manager {

// 0 when told to end, or done with --oneshot; 1 for everything else, as upstream.
int Command(int argc, char** argv);

}  // namespace pitcrew::node::config_manager
