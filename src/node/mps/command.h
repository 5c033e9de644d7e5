// The program mps-control-daemon.
#pragma once

namespace pitcrew::node::mps {

// Serves until SIGTERM, SIGINT or SIGQUIT; SIGHUP reads the configuration again. With `mount-shm`
// it mounts the shared memory of MPS and ends. 0 after a stop, 1 on an error.
int Command(int argc, char** argv);

}  // namespace pitcrew::node::mps
