// `nvidia-driver`: the program that a driver container runs (driver-lifecycle.md section 9).
#pragma once

namespace pitcrew::node::driver_container {

// The exit status: 0 done, 1 failure and wrong usage alike, as upstream's script has it.
int Command(int argc, char** argv);

}  // namespace pitcrew::node::driver_container
