// Entry points: nvidia-ctk-installer (nvidia-toolkit), the container that prepares a node's
// container engine for GPUs, and nvidia-ctk, the administrator's tool.
#pragma once

namespace pitcrew::node::toolkit {

int InstallerCommand(int argc, char** argv);
int CtkCommand(int argc, char** argv);

}  // namespace pitcrew::node::toolkit
