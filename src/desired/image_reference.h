// Whether the kubelet would take an image's name for one.
#pragma once

#include <string_view>

#include "api/cluster_policy.h"
#include "base/result.h"

namespace pitcrew::desired {

// The grammar of image references: [host[:port]/]name[:tag][@digest]. Errors name the field of
// `spec`, from which the reference was made. For images whose absence costs more than a pod that
// does not start: drivers are taken away from nodes before new ones are fetched.
base::Status RequireReference(const api::ImageSpec& spec, std::string_view reference);

}  // namespace pitcrew::desired
