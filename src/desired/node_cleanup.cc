#include "desired/node_cleanup.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "api/cc_mode.h"
#include "api/labels.h"
#include "api/mig_progress.h"
#include "api/qualification.h"
#include "api/upgrade_state.h"
#include "desired/pause_words.h"
#include "desired/qualification_gate.h"

namespace pitcrew::desired {
namespace {

using codec::Json;

// Written by the operator or its operands and by nobody else, whatever the value.
constexpr std::string_view kLabels[] = {api::kGpuPresent,      api::kDriverOwner,
                                        api::kUpgradeState,    api::kMigConfigState,
                                        api::kVgpuConfigState, api::kQualification};
constexpr std::string_view kAnnotations[] = {api::kUpgradeEnabledAnnotation,
                                             api::kUpgradeSafeLoadAnnotation,
                                             api::kUpgradePodCompletionStartAnnotation,
                                             api::kUpgradeValidationStartAnnotation,
                                             api::kUpgradeRequestorModeAnnotation,
                                             api::kUpgradeInitiallyUnschedulableAnnotation,
                                             api::kUpgradeFailedRevisionAnnotation,
                                             api::kUpgradeTurnAnnotation,
                                             api::kUpgradeLastAnnotation,
                                             api::kUpgradeMetricsAnnotation,
                                             api::kMigConfigProgress,
                                             kCordonedByDriverManager,
                                             api::kQualification};

// What the driver manager and the managers of MIG, vGPUs and confidential computing append to a
// deploy label while they work.
constexpr std::string_view kPauses[] = {api::kPausedForDriverUpgrade, api::kPausedForMigChange,
                                        api::kPausedForVgpuChange, api::kPausedForCcChange};

std::optional<std::string> Remove() { return std::nullopt; }

// Nothing when the label stays as it is; else its new value, or none to remove it.
std::optional<std::optional<std::string>> CleanUpDeployLabel(std::string_view key,
                                                             std::string_view value) {
  if (key == api::kDeployOperands) return std::nullopt;
  const std::string before_pause = WithoutPauses(value, kPauses);
  const bool machines = before_pause.empty() || before_pause == api::kPreInstalled ||
                        (before_pause == "true" && key != api::kDeployNvsm) ||
                        (key == api::kDeployContainerToolkit && RuntimeNamed(before_pause));
  if (machines) return Remove();
  if (before_pause == value) return std::nullopt;
  return before_pause;
}

std::optional<std::optional<std::string>> CleanUpLabel(std::string_view key,
                                                       std::string_view value) {
  if (std::ranges::find(kLabels, key) != std::end(kLabels)) return Remove();
  if (key.starts_with(api::kDeployPrefix)) return CleanUpDeployLabel(key, value);
  if (key == api::kMigConfig && (value.empty() || value == api::kMigConfigAllDisabled)) {
    return Remove();
  }
  return std::nullopt;
}

Json ToJson(const Changes& changes) {
  Json object = Json::object();
  for (const auto& [key, value] : changes) object[key] = value ? Json(*value) : Json(nullptr);
  return object;
}

}  // namespace

bool IsCordonedForUpgrade(const Node& node) {
  const api::UpgradeState state = api::UpgradeStateNamed(node.labels.Get(api::kUpgradeState));
  // A queued node that failed before still has the cordon of then.
  const bool ours = api::HoldsCordon(state) ||
                    node.UpgradeNotes().contains(api::kUpgradeFailedRevisionAnnotation);
  return node.unschedulable && ours &&
         !node.UpgradeNotes().contains(api::kUpgradeInitiallyUnschedulableAnnotation);
}

NodeCleanup DecideCleanup(const Json& node) {
  NodeCleanup cleanup;
  const Json* labels = codec::Find(node, {"metadata", "labels"});
  if (labels != nullptr && labels->is_object()) {
    for (const auto& [key, value] : labels->items()) {
      const std::string text = value.is_string() ? value.get<std::string>() : "";
      if (const auto change = CleanUpLabel(key, text)) cleanup.labels[key] = *change;
    }
  }
  const Json* annotations = codec::Find(node, {"metadata", "annotations"});
  if (annotations != nullptr && annotations->is_object()) {
    for (const std::string_view key : kAnnotations) {
      if (annotations->contains(key)) cleanup.annotations[std::string(key)] = std::nullopt;
    }
  }
  const auto view = ReadNode(node);
  cleanup.uncordon = view && (IsCordonedForUpgrade(*view) ||
                              (view->unschedulable && view->cordoned_by_driver_manager));
  cleanup.release = view && view->held_for_qualification;
  return cleanup;
}

bool HasTraces(const Node& node) {
  const auto labels = node.labels.All();
  if (!node.upgrade_enabled.empty() || node.held_for_qualification ||
      node.cordoned_by_driver_manager) {
    return true;
  }
  return std::ranges::any_of(labels, [](const auto& label) {
    return CleanUpLabel(label.first, label.second).has_value();
  });
}

Json CleanupPatch(const NodeCleanup& cleanup, const Json& node) {
  Json patch = {{"metadata", Json::object()}};
  if (!cleanup.labels.empty()) patch["metadata"]["labels"] = ToJson(cleanup.labels);
  if (!cleanup.annotations.empty()) {
    patch["metadata"]["annotations"] = ToJson(cleanup.annotations);
  }
  if (cleanup.uncordon) patch["spec"]["unschedulable"] = nullptr;
  if (cleanup.release) {
    patch["spec"]["taints"] = TaintsAfter(node, TaintChange::kRemove);
    patch["metadata"]["resourceVersion"] = codec::FindString(node, {"metadata", "resourceVersion"});
  }
  return patch;
}

}  // namespace pitcrew::desired
