// Image references from a policy (reference clusterpolicy-api.md section 6).
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "api/cluster_policy.h"
#include "base/command_line.h"
#include "base/result.h"
#include "desired/facts.h"

namespace pitcrew::desired {

// The operator's *_IMAGE environment variables, by name.
using DefaultImages = std::map<std::string, std::string, std::less<>>;

// The variables that upstream's operator reads.
inline constexpr std::string_view kImageVariables[] = {"DRIVER_IMAGE",
                                                       "VGPU_MANAGER_IMAGE",
                                                       "CONTAINER_TOOLKIT_IMAGE",
                                                       "DEVICE_PLUGIN_IMAGE",
                                                       "DCGM_EXPORTER_IMAGE",
                                                       "DCGM_IMAGE",
                                                       "VALIDATOR_IMAGE",
                                                       "GFD_IMAGE",
                                                       "MIG_MANAGER_IMAGE",
                                                       "DRIVER_MANAGER_IMAGE",
                                                       "GDS_IMAGE",
                                                       "GDRCOPY_IMAGE",
                                                       "VFIO_MANAGER_IMAGE",
                                                       "CC_MANAGER_IMAGE",
                                                       "VGPU_DEVICE_MANAGER_IMAGE",
                                                       "KATA_MANAGER_IMAGE",
                                                       "CUDA_BASE_IMAGE",
                                                       "SANDBOX_DEVICE_PLUGIN_IMAGE",
                                                       "DRA_DRIVER_IMAGE",
                                                       "KATA_SANDBOX_DEVICE_PLUGIN_IMAGE"};

// The variables above that are set.
DefaultImages ReadDefaultImages(const base::CommandLine::Environment& environment);

// "repository/image:version" (or "@version" for a digest); the image alone when it is the only one
// given; the default of `variable` when none is. Errors name the field.
base::Result<std::string> ResolveImage(const api::ImageSpec& spec, std::string_view variable,
                                       const DefaultImages& defaults);

// `image` with "-<os tag>" appended, unless it is a digest.
std::string WithOsTag(std::string image, const OsRelease& os);

// The driver image of one kernel: "<image>-<kernel>-<os tag>".
base::Result<std::string> ResolvePrecompiledImage(const api::ImageSpec& spec,
                                                  std::string_view variable,
                                                  const DefaultImages& defaults,
                                                  std::string_view kernel, const OsRelease& os);

// Always, Never and IfNotPresent as they are; everything else is IfNotPresent.
std::string_view PullPolicy(std::string_view text);

}  // namespace pitcrew::desired
