// Entry point of driver-manager, the init container of driver pods.
#pragma once

namespace pitcrew::node::driver_manager {

int Command(int argc, char** argv);

}  // namespace pitcrew::node::driver_manager
