// Entry point of vfio-manage: GPUs to VFIO and back (vfio-manager.md section 2).
#pragma once

namespace pitcrew::node::vfio_manager {

int Command(int argc, char** argv);

}  // namespace pitcrew::node::vfio_manager
