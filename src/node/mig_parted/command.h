// `pitcrew mig-parted` and nvidia-mig-parted: applies, checks, saves and restores the MIG geometry
// of this node (mig-manager.md section 2).
#pragma once

namespace pitcrew::node::mig_parted {

// Exit codes as upstream's: 0 done, 1 anything else, usage included.
int Command(int argc, char** argv);

}  // namespace pitcrew::node::mig_parted
