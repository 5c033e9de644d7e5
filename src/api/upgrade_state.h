// The states of a node whose driver is upgraded: values of the label kUpgradeState
// (driver-lifecycle.md section 2.3).
#pragma once

#include <span>
#include <string_view>

namespace pitcrew::api {

// In the order in which a node takes them, as far as it does.
enum class UpgradeState {
  kNone,  // no label
  kRequired,
  kCordonRequired,
  kWaitForJobsRequired,
  kPodDeletionRequired,
  kDrainRequired,
  kNodeMaintenanceRequired,  // another operator cordons and drains (requestor mode)
  kPostMaintenanceRequired,  // likewise
  kPodRestartRequired,
  kValidationRequired,
  kUncordonRequired,
  kDone,
  kFailed,
  kOther,  // a value that nobody knows
};

UpgradeState UpgradeStateNamed(std::string_view label);
// The label's value; "" for kNone and kOther.
std::string_view NameOf(UpgradeState state);
// All that have a name.
std::span<const UpgradeState> UpgradeStates();

// The upgrade has begun and has not ended: the node is neither queued, done nor failed.
bool IsUnderWay(UpgradeState state);
// The upgrade controller holds the node cordoned, if it was not before.
bool HoldsCordon(UpgradeState state);

}  // namespace pitcrew::api
