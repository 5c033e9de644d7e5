// nvidia-ctk-installer (nvidia-toolkit): the container that prepares a node's container engine for
// GPUs.
#pragma once

namespace pitcrew::node::toolkit {

int InstallerCommand(int argc, char** argv);

}  // namespace pitcrew::node::toolkit
