// What is to be done about a node's label, from what was seen: pure (mig-manager.md 9.4, steps 1 to
// 5).
#pragma once

#include <string_view>

#include "base/error.h"
#include "node/mig/plan.h"

namespace pitcrew::node::mig_manager {

// Values of the label nvidia.com/mig.config.state.
inline constexpr std::string_view kPending = "pending";
inline constexpr std::string_view kSuccess = "success";
inline constexpr std::string_view kFailed = "failed";
inline constexpr std::string_view kRebooting = "rebooting";

enum class Action {
  kNothing,       // the GPUs are as wanted
  kChange,        // they are not
  kRebootInVain,  // the node was restarted for a MIG mode, and the mode still does not count
};

// `state` is the value of the state label.
Action Decide(const mig::Plan& plan, std::string_view state);

// Whether a change that failed so may succeed later without anybody's doing. A GPU that is in use,
// a deadline that passed and an impossible geometry are a person's to decide; GPUs that are neither
// as wanted nor as before are not left to wait for one.
bool MayPass(const base::Error& error);

}  // namespace pitcrew::node::mig_manager
