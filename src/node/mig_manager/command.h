// Entry point of nvidia-mig-manager.
#pragma once

namespace pitcrew::node::mig_manager {

int Command(int argc, char** argv);

}  // namespace pitcrew::node::mig_manager
