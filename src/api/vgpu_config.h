// How people and the vGPU device manager talk about a node's vGPUs (vgpu-device-manager.md section
// 6.2); the state label is in labels.h.
#pragma once

#include <string_view>

#include "api/mig_progress.h"

namespace pitcrew::api {

// Set by a person: the name of a configuration. Without it the default one holds.
inline constexpr std::string_view kVgpuConfig = "nvidia.com/vgpu.config";
// Annotation, beside upstream's labels: how far a change is, in the form of mig.config.progress.
inline constexpr std::string_view kVgpuConfigProgress = "nvidia.com/vgpu.config.progress";
using VgpuProgress = MigProgress;

}  // namespace pitcrew::api
