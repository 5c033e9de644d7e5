// The programs nvidia-kubevirt-gpu-device-plugin and nvidia-sandbox-device-plugin (for Kata).
#pragma once

namespace pitcrew::node::sandbox_device_plugin {

// Both serve until SIGTERM, SIGINT or SIGQUIT. 0 after a stop, 1 on an error, 2 on a usage error.
int KubevirtCommand(int argc, char** argv);
int KataCommand(int argc, char** argv);

}  // namespace pitcrew::node::sandbox_device_plugin
