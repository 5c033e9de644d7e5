// `nvidia-driver`: the program that a driver container runs (driver-lifecycle.md section 9); under
// the names nvidia-gds-driver and nvidia-gdrcopy-driver that of the containers beside it (section
// 10).
#pragma once

namespace pitcrew::node::driver_container {

// What argv[0] names. The exit status: 0 done, 1 failure and wrong usage alike, as upstream's
// script has it.
int Command(int argc, char** argv);

}  // namespace pitcrew::node::driver_container
