// What a specification's annotations say of the driver and of each GPU, for the requirements of images
// (container-toolkit.md 10): the toolkit writes it, the runtime reads it.
#pragma once

#include <string_view>

namespace pitcrew::cdi {

inline constexpr std::string_view kCudaVersion = "runtime.nvidia.com/cuda-version";      // "13.0"
inline constexpr std::string_view kDriverVersion = "runtime.nvidia.com/driver-version";  // "580.95.05"
inline constexpr std::string_view kComputeCapability = "runtime.nvidia.com/compute-capability";
inline constexpr std::string_view kBrand = "runtime.nvidia.com/brand";  // "tesla", "nvidia"

struct DriverAnnotation {
  std::string_view property;  // as requirements call it
  std::string_view key;
};
inline constexpr DriverAnnotation kDriverAnnotations[] = {{"cuda", kCudaVersion},
                                                          {"driver", kDriverVersion},
                                                          {"arch", kComputeCapability},
                                                          {"brand", kBrand}};

}  // namespace pitcrew::cdi
