// Entry point of nvidia-k8s-vgpu-dm.
#pragma once

namespace pitcrew::node::vgpu_device_manager {

int Command(int argc, char** argv);

}  // namespace pitcrew::node::vgpu_device_manager
