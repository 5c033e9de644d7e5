// What the validator's pods on nodes with GPUs for containers are called: their label "app".
#pragma once

#include <string_view>

namespace pitcrew::api {

// Its DaemonSet, and that one's service account, too.
inline constexpr std::string_view kOperatorValidator = "nvidia-operator-validator";
// Pods that it makes, each for one look.
inline constexpr std::string_view kCudaValidator = "nvidia-cuda-validator";
inline constexpr std::string_view kDevicePluginValidator = "nvidia-device-plugin-validator";

}  // namespace pitcrew::api
