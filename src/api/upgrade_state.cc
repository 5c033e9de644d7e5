#include "api/upgrade_state.h"

#include <algorithm>
#include <array>
#include <utility>

namespace pitcrew::api {
namespace {

using enum UpgradeState;

constexpr std::array<std::pair<UpgradeState, std::string_view>, 12> kNames{{
    {kRequired, "upgrade-required"},
    {kCordonRequired, "cordon-required"},
    {kWaitForJobsRequired, "wait-for-jobs-required"},
    {kPodDeletionRequired, "pod-deletion-required"},
    {kDrainRequired, "drain-required"},
    {kNodeMaintenanceRequired, "node-maintenance-required"},
    {kPostMaintenanceRequired, "post-maintenance-required"},
    {kPodRestartRequired, "pod-restart-required"},
    {kValidationRequired, "validation-required"},
    {kUncordonRequired, "uncordon-required"},
    {kDone, "upgrade-done"},
    {kFailed, "upgrade-failed"},
}};

}  // namespace

UpgradeState UpgradeStateNamed(std::string_view label) {
  if (label.empty()) return kNone;
  const auto* const found =
      std::ranges::find(kNames, label, [](const auto& entry) { return entry.second; });
  return found == kNames.end() ? kOther : found->first;
}

std::string_view NameOf(UpgradeState state) {
  const auto* const found =
      std::ranges::find(kNames, state, [](const auto& entry) { return entry.first; });
  return found == kNames.end() ? "" : found->second;
}

std::span<const UpgradeState> UpgradeStates() {
  static constexpr auto kAll = [] {
    std::array<UpgradeState, kNames.size()> states{};
    std::ranges::transform(kNames, states.begin(), [](const auto& entry) { return entry.first; });
    return states;
  }();
  return kAll;
}

bool IsUnderWay(UpgradeState state) {
  return state != kNone && state != kRequired && state != kDone && state != kFailed &&
         state != kOther;
}

bool HoldsCordon(UpgradeState state) {
  return state == kFailed || (IsUnderWay(state) && state != kNodeMaintenanceRequired &&
                              state != kPostMaintenanceRequired);
}

}  // namespace pitcrew::api
