// nvidia-container-runtime: an OCI runtime that puts the devices which a container asks for into
// its specification and then becomes the low-level runtime (container-toolkit.md 7).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "oci/spec.h"
#include "shim/config.h"
#include "shim/report.h"

namespace pitcrew::shim {

// `forced_mode` is empty, "cdi" or "legacy". Returns only when something failed.
int RunRuntime(int argc, char** argv, std::string_view forced_mode);

// Edits `spec`; whether anything changed. Nothing is requested: only NVIDIA's own prestart hooks
// are taken out.
base::Result<bool> EditSpec(oci::Spec& spec, const Config& config, std::string_view forced_mode,
                            const Report& report);

// The first of `names` that can be executed and is not this program itself: names without a slash
// are looked for in $PATH and the six standard folders.
base::Result<std::string> FindLowLevelRuntime(const std::vector<std::string>& names);

}  // namespace pitcrew::shim
