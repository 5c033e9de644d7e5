// The program nvidia-device-plugin.
#pragma once

namespace pitcrew::node::device_plugin {

// Serves until SIGTERM, SIGINT or SIGQUIT; SIGHUP reads the configuration again. 0 after a stop, 1
// on an error.
int Command(int argc, char** argv);

}  // namespace pitcrew::node::device_plugin
