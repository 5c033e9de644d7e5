// What an image requires of driver and GPUs, in NVIDIA_REQUIRE_* (container-toolkit.md 8, 10 and
// checklist #117, #118, #144). Pure.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "oci/spec.h"

namespace pitcrew::shim {

// "cuda" "13.0", "driver" "580.95.05", "arch" "9.0", "brand" "nvidia"; what is not known is left
// out.
using Properties = std::map<std::string, std::string, std::less<>>;

// The requirements of an image: values of NVIDIA_REQUIRE_* but those of JETPACK, and for an image
// from before there were any, the CUDA that it carries. None where NVIDIA_DISABLE_REQUIRE is true,
// or `disabled`. kInvalid when CUDA_VERSION of such an image is no version.
base::Result<std::vector<std::string>> FindRequirements(const oci::Spec& spec, bool disabled);

// "9.0.116" and "v9.0" are "9.0", "8" is "8.0"; kInvalid for what is no version.
base::Result<std::string> MajorMinor(std::string_view version);

// Whether a requirement is met: of alternatives, which blanks part, one whose conditions, which
// commas part, all are. A condition about a property that is not known is met. kInvalid for a
// condition without an operator, or a version that is none.
base::Result<bool> IsMet(std::string_view requirement, const Properties& properties);

}  // namespace pitcrew::shim
