// How people and the confidential computing manager talk about a node's mode
// (virtualisation-and-olm.md section 12.1, validator.md section 12.2).
#pragma once

#include <string_view>

#include "api/mig_progress.h"

namespace pitcrew::api {

// Set by a person: on, off, devtools or ppcie. Without it the default of the policy holds.
inline constexpr std::string_view kCcMode = "nvidia.com/cc.mode";
// The mode in force, or "failed".
inline constexpr std::string_view kCcModeState = "nvidia.com/cc.mode.state";
// What runtime classes of Kata select nodes by: "true" where the GPUs are protected, "false" in
// mode off, "" otherwise.
inline constexpr std::string_view kCcReadyState = "nvidia.com/cc.ready.state";
// Annotation, beside upstream's labels: how far a change is, in the form of mig.config.progress.
inline constexpr std::string_view kCcModeProgress = "nvidia.com/cc.mode.progress";
// What the manager writes in place of "true" into deploy labels, or adds to other values of them.
inline constexpr std::string_view kPausedForCcChange = "paused-for-cc-mode-change";
using CcProgress = MigProgress;

}  // namespace pitcrew::api
