// `pitcrew dashboard`: the fleet on a web page of this machine.
#pragma once

namespace pitcrew::dashboard {

// Serves until SIGINT or SIGTERM. 0: ended by one of them; 1: the cluster cannot be read, or the
// port cannot be had; 2: wrong usage.
int Command(int argc, char** argv);

}  // namespace pitcrew::dashboard
