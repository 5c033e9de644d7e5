// Entry points: nvidia-validator (whose `qualify` is the room qualification's), and `pitcrew wait`
// for start scripts of other components.
#pragma once

namespace pitcrew::node::validator {

int Command(int argc, char** argv);
// wait FILE... [--timeout 5m]: ends with 0 as soon as all files exist.
int WaitCommand(int argc, char** argv);

}  // namespace pitcrew::node::validator
