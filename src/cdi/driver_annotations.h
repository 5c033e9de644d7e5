// What a specification's annotations say of the driver and of each GPU, for the requirements of
// images (container-toolkit.md 10): the toolkit writes it, the runtime reads it.
#pragma once

#include <string_view>

namespace pitcrew::cdi {

// Kind of the devices that the runtime takes names without a kind for.
inline constexpr std::string_view kRuntimeKind = "runtime.nvidia.com/gpu";

inline constexpr std::string_view kCudaVersion = "runtime.nvidia.com/cuda-version";  // "13.0"
inline constexpr std::string_view kDriverVersion =
    "runtime.nvidia.com/driver-version";  // "580.95.05"
inline constexpr std::string_view kComputeCapability = "runtime.nvidia.com/compute-capability";
inline constexpr std::string_view kBrand = "runtime.nvidia.com/brand";  // "tesla", "nvidia"

// The folder of the lists of a Tegra system that a specification was made from; without it the
// usual.
inline constexpr std::string_view kListsFolder = "runtime.nvidia.com/mount-spec-path";
inline constexpr std::string_view kUsualListsFolder =
    "/etc/nvidia-container-runtime/host-files-for-container.d";

struct DriverAnnotation {
  std::string_view property;  // as requirements call it
  std::string_view key;
};
inline constexpr DriverAnnotation kDriverAnnotations[] = {{"cuda", kCudaVersion},
                                                          {"driver", kDriverVersion},
                                                          {"arch", kComputeCapability},
                                                          {"brand", kBrand}};

}  // namespace pitcrew::cdi
