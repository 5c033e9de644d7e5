// Devices beside GPUs that a container asks for by variables of their own: GPUDirect Storage, RDMA,
// GDRCopy, NVSwitches, IMEX channels (container-toolkit.md 7.3, 7.5). Which there are is looked at
// when the container is made.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "cdi/spec.h"
#include "oci/spec.h"
#include "shim/config.h"
#include "shim/requests.h"

namespace pitcrew::shim {

struct GatedRequests {
  std::vector<std::string> classes{};  // names of cdi::DeviceClasses()
  std::vector<std::int64_t> imex_channels{};
  std::vector<std::string> warnings{};

  [[nodiscard]] bool empty() const { return classes.empty() && imex_channels.empty(); }
};

// NVIDIA_GDS, NVIDIA_MOFED, NVIDIA_GDRCOPY, NVIDIA_NVSWITCH that are "enabled", and the channels of
// NVIDIA_IMEX_CHANNELS, or of mounts below /var/run/nvidia-container-devices/imex. Variables of a
// container that is not privileged count where those of GPUs do. Mode csv takes no IMEX channels,
// as upstream's. kInvalid "InvalidImexChannel".
base::Result<GatedRequests> FindGatedRequests(const oci::Spec& spec, const Config& config,
                                              Mode mode = Mode::kPrepared);

// `root` is the driver's on the host, whose nodes and files are meant. What a class has none of is
// a warning; kNotFound "NoImexChannel" for a channel that is not there.
base::Result<cdi::ContainerEdits> GatedEdits(GatedRequests& requests,
                                             const std::filesystem::path& root);

}  // namespace pitcrew::shim
