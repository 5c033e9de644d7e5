#include "node/mig_manager/decision.h"

namespace pitcrew::node::mig_manager {

Action Decide(const mig::Plan& plan, std::string_view state) {
  if (plan.changes.empty()) return Action::kNothing;
  // A second restart would be the first of many.
  if (state == kRebooting && plan.ChangesModes()) return Action::kRebootInVain;
  return Action::kChange;
}

bool MayPass(const base::Error& error) {
  switch (error.code) {
    case base::Code::kUnavailable:
    case base::Code::kTooMany:
    case base::Code::kGone:
      return true;
    case base::Code::kTimeout:
      return error.reason != "GpuPodsStillThere";
    case base::Code::kConflict:
      return error.reason == "ChangeInProgress" || error.reason == "Conflict";
    default:
      return false;
  }
}

}  // namespace pitcrew::node::mig_manager
