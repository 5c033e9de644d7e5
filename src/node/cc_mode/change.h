// Changes the mode of a node's GPUs and NVSwitches, or leaves them as they were.
#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

#include "base/result.h"
#include "node/cc_mode/node.h"

namespace pitcrew::node::cc_mode {

enum class Step { kStaging, kResetting, kDone, kTakenBack };
std::string_view ToString(Step step);  // "staging"

using Progress = std::function<void(const DeviceMode& device, Step step)>;

// All devices in that mode, read back, or those of before: until everything is staged no device is
// reset, and a failure has every device that was told go back. A process that is killed leaves the
// journal; the next Apply, of whatever mode, goes on from it. Not to be interrupted. Errors are
// PlanNode's, RequireUnused's, those of the devices, kConflict "ChangeInProgress", and kUnavailable
// "RollbackFailed" when a way back failed too: the journal stays, so call it, or Recover, again.
base::Result<Plan> Apply(const Settings& settings, Mode wanted, const Progress& progress = {});

// Back to the modes before a change that was cut off; nothing when none was.
base::Status Recover(const Settings& settings);

base::Result<bool> WasCutOff(const Settings& settings);

}  // namespace pitcrew::node::cc_mode
