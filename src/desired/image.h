// Image references from a policy (reference clusterpolicy-api.md section 6).
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "api/cluster_policy.h"
#include "base/command_line.h"
#include "base/result.h"
#include "desired/facts.h"

namespace pitcrew::desired {

// The operator's *_IMAGE environment variables, by name.
using DefaultImages = std::map<std::string, std::string, std::less<>>;

// Variables that several operands read; each operand's own stand in its descriptor.
inline constexpr std::string_view kValidatorImage = "VALIDATOR_IMAGE";
inline constexpr std::string_view kDevicePluginImage = "DEVICE_PLUGIN_IMAGE";
inline constexpr std::string_view kDriverManagerImage = "DRIVER_MANAGER_IMAGE";

// Those of `variables` that are set (OperandTable::image_variables).
DefaultImages ReadDefaultImages(const std::vector<std::string_view>& variables,
                                const base::CommandLine::Environment& environment);

// "repository/image:version" (or "@version" for a digest); the image alone when it is the only one
// given; the default of `variable` when none is. Errors name the field.
base::Result<std::string> ResolveImage(const api::ImageSpec& spec, std::string_view variable,
                                       const DefaultImages& defaults);

// `image` with "-<os tag>" appended, unless it is a digest.
std::string WithOsTag(std::string image, const OsRelease& os);

// The driver image of one kernel: "<image>-<kernel>-<os tag>". A digest names no such image.
base::Result<std::string> ResolvePrecompiledImage(const api::ImageSpec& spec,
                                                  std::string_view variable,
                                                  const DefaultImages& defaults,
                                                  std::string_view kernel, const OsRelease& os);

// Always, Never and IfNotPresent as they are; everything else is IfNotPresent.
std::string_view PullPolicy(std::string_view text);

}  // namespace pitcrew::desired
