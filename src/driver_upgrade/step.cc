#include "driver_upgrade/step.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/labels.h"
#include "base/strings.h"
#include "desired/node_cleanup.h"
#include "driver_upgrade/record.h"

namespace pitcrew::driver_upgrade {
namespace {

using api::UpgradeState;
using codec::Json;
using enum api::UpgradeState;

constexpr std::string_view kTrackingAnnotations[] = {
    api::kUpgradePodCompletionStartAnnotation, api::kUpgradeValidationStartAnnotation,
    api::kUpgradeTurnAnnotation, api::kUpgradeMetricsAnnotation};
// Of which no Event tells: upstream does not have them.
constexpr std::string_view kUntoldAnnotations[] = {
    api::kUpgradeTurnAnnotation, api::kUpgradeLastAnnotation, api::kUpgradeMetricsAnnotation};
// No revision's name: the DaemonSet was being changed, or gone, as the upgrade failed. Any version
// that comes to be known then is another one, and tried.
constexpr std::string_view kUnknownRevision = "unknown";

std::int64_t UnixSeconds(base::WallClock::time_point time) {
  return std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
}

// Decides for one node; each of the functions is a state's.
class Decision {
 public:
  Decision(const NodeFacts& facts, const api::UpgradePolicy& policy)
      : facts_(facts), policy_(policy) {}

  Step Decide() {
    const UpgradeState state = api::UpgradeStateNamed(facts_.node.labels.Get(api::kUpgradeState));
    if (state != kNone && state != kOther && !DriverIsWanted()) return DecideRelease(facts_.node);
    switch (state) {
      case kNone:
      case kDone:
        Idle(state);
        break;
      case kRequired:
        Queued();
        break;
      case kCordonRequired:
        // Ours comes with the next state in one write: one that stands here is a person's. Not
        // where upstream's operator gave the node its turn: it cordons first, and noted a cordon of
        // before when it queued the node. A node that nobody makes schedulable again would be worse
        // than what that operator would have done.
        if (Annotation(api::kUpgradeTurnAnnotation) != nullptr) RememberCordon();
        step_.unschedulable = true;
        step_.to = kWaitForJobsRequired;
        break;
      case kWaitForJobsRequired:
        WaitForJobs();
        break;
      case kPodDeletionRequired:
        RemoveGpuPods();
        break;
      case kDrainRequired:
        Drain();
        break;
      case kPodRestartRequired:
        RestartPod();
        break;
      case kValidationRequired:
        Validate();
        break;
      case kUncordonRequired:
        Uncordon();
        break;
      case kFailed:
        Recover();
        break;
      case kNodeMaintenanceRequired:
      case kPostMaintenanceRequired:
        step_.waits_for = "a maintenance operator, which Pitcrew does not ask: take the label away";
        break;
      case kOther:
        step_.waits_for = "somebody to take away a state that nobody knows";
        break;
    }
    // What does not change is not written.
    if (step_.unschedulable && *step_.unschedulable == facts_.node.unschedulable) {
      step_.unschedulable.reset();
    }
    return std::move(step_);
  }

 private:
  [[nodiscard]] const std::string* Annotation(std::string_view key) const {
    const auto& notes = facts_.node.UpgradeNotes();
    const auto found = notes.find(key);
    return found == notes.end() ? nullptr : &found->second;
  }
  void RemoveAnnotation(std::string_view key) {
    if (Annotation(key) != nullptr) step_.annotations[std::string(key)] = std::nullopt;
  }
  void SetAnnotation(std::string_view key, std::string value) {
    step_.annotations[std::string(key)] = std::move(value);
  }
  [[nodiscard]] bool WaitsForSafeLoad() const {
    const std::string* value = Annotation(api::kUpgradeSafeLoadAnnotation);
    return value != nullptr && !value->empty();
  }
  [[nodiscard]] bool Requested() const {
    const std::string* value = Annotation(api::kUpgradeRequestedAnnotation);
    return value != nullptr && *value == "true";
  }
  [[nodiscard]] bool WasUnschedulable() const {
    return Annotation(api::kUpgradeInitiallyUnschedulableAnnotation) != nullptr;
  }
  // Only a person, or a driver of the host, says that there is to be none.
  [[nodiscard]] bool DriverIsWanted() const {
    const std::string_view value = facts_.node.labels.Get(api::kDeployDriver);
    return facts_.pod != nullptr || (value != "false" && value != api::kPreInstalled);
  }
  [[nodiscard]] bool ValidatorIsWanted() const {
    return facts_.node.labels.Get(api::kDeployOperatorValidator) != "false";
  }
  [[nodiscard]] bool IsValidated() const {
    return !ValidatorIsWanted() ||
           (facts_.validators > 0 && facts_.validators_ready == facts_.validators);
  }
  // A cordon that stands when ours would come is somebody's, unless an upgrade that failed left it.
  void RememberCordon() {
    if (facts_.node.unschedulable && !WasUnschedulable() &&
        Annotation(api::kUpgradeFailedRevisionAnnotation) == nullptr) {
      SetAnnotation(api::kUpgradeInitiallyUnschedulableAnnotation, "true");
    }
  }

  // Nothing when the annotation is missing or no number.
  [[nodiscard]] std::optional<std::int64_t> TimeAt(std::string_view key) const {
    const std::string* text = Annotation(key);
    if (text == nullptr) return std::nullopt;
    const auto seconds = base::ParseUnsigned(*text);
    if (!seconds) return std::nullopt;
    return static_cast<std::int64_t>(*seconds);
  }
  // Whether the time since the annotation was written is up. Writes it when it is not there; asks
  // to be looked at again when the time will be up.
  bool TimeIsUp(std::string_view key, std::int64_t timeout_seconds) {
    const std::int64_t now = UnixSeconds(facts_.now);
    const auto start = TimeAt(key);
    if (!start) {
      SetAnnotation(key, std::to_string(now));
      return false;
    }
    if (now > *start + timeout_seconds) return true;
    step_.look_again = std::chrono::seconds(*start + timeout_seconds + 1 - now);
    return false;
  }

  void Idle(UpgradeState state) {
    if (facts_.pod == nullptr) return;
    const bool asked = WaitsForSafeLoad() || Requested();
    if (facts_.succession == Succession::kSame && !asked) {
      step_ = DecideHandOver();
    } else if (facts_.sync == Sync::kOutdated || facts_.succession == Succession::kOther || asked) {
      RememberCordon();
      // Times of an upgrade that was broken off.
      for (const std::string_view key : kTrackingAnnotations) RemoveAnnotation(key);
      step_.to = kRequired;
    } else if (state == kNone && facts_.sync != Sync::kUnknown) {
      step_.to = kDone;
    }
  }

  // What runs is what the DaemonSet that takes over would run; a restart would be for nothing.
  [[nodiscard]] bool OnlyChangesHands() const {
    return facts_.succession == Succession::kSame && !facts_.pod->deleting && !Requested() &&
           !WaitsForSafeLoad();
  }

  // Nothing has been done to the node yet, and nothing has to be any longer: its driver is that of
  // the newest template again, and works. A request that is not under way stands in its annotation.
  [[nodiscard]] bool NeedsNoUpgrade() const {
    return facts_.sync == Sync::kInSync && facts_.pod->ready && !facts_.pod->deleting &&
           !Requested() && !WaitsForSafeLoad() &&
           Annotation(api::kUpgradeFailedRevisionAnnotation) == nullptr;
  }

  void Queued() {
    if (facts_.pod != nullptr && NeedsNoUpgrade()) {
      RemoveAnnotation(api::kUpgradeInitiallyUnschedulableAnnotation);
      step_.to = kDone;
      return;
    }
    // After a failure the node takes the whole way, whoever's the driver is.
    if (facts_.pod != nullptr && OnlyChangesHands() &&
        Annotation(api::kUpgradeFailedRevisionAnnotation) == nullptr) {
      step_ = DecideHandOver();
      return;
    }
    const bool requested = Requested();
    if (facts_.node.labels.Is(api::kUpgradeSkip, "true")) {
      step_.waits_for = fmt::format("its label {}=true to go", api::kUpgradeSkip);
      return;
    }
    if (facts_.pod == nullptr || facts_.sync == Sync::kUnknown) {
      step_.waits_for = "a pod of the driver";
      return;
    }
    const bool by_itself = facts_.node.unschedulable && !policy_.NeedsTurnWhenCordoned();
    if (!facts_.granted && !by_itself) {
      step_.waits_for = "its turn";
      return;
    }
    RememberCordon();
    // Not before: what was asked for is done also where nothing has changed.
    RemoveAnnotation(api::kUpgradeRequestedAnnotation);
    SetAnnotation(api::kUpgradeTurnAnnotation, std::to_string(UnixSeconds(facts_.now)));
    if (facts_.restarts_only && facts_.sync == Sync::kOutdated && !requested &&
        !WaitsForSafeLoad()) {
      step_.unschedulable = true;
      RemoveAnnotation(api::kUpgradeFailedRevisionAnnotation);
      step_.to = kPodRestartRequired;
    } else {
      step_.to = kCordonRequired;
    }
  }

  void WaitForJobs() {
    RemoveAnnotation(api::kUpgradeFailedRevisionAnnotation);
    if (policy_.wait_pod_selector.empty()) {
      step_.to = kPodDeletionRequired;
      return;
    }
    if (facts_.jobs == Jobs::kNotLookedAt) {
      step_.work = Work::kWatchJobs;
      step_.waits_for = "a look at its jobs";
      return;
    }
    const bool running = facts_.jobs == Jobs::kRunning;
    if (running) {
      step_.waits_for = fmt::format("pods with labels {} to end", policy_.wait_pod_selector);
      if (policy_.wait_timeout_seconds == 0) return;
      if (!TimeIsUp(api::kUpgradePodCompletionStartAnnotation, policy_.wait_timeout_seconds)) {
        return;
      }
    }
    RemoveAnnotation(api::kUpgradePodCompletionStartAnnotation);
    step_.to = kPodDeletionRequired;
  }

  void Fail() {
    SetAnnotation(api::kUpgradeFailedRevisionAnnotation, facts_.newest_revision.empty()
                                                             ? std::string(kUnknownRevision)
                                                             : facts_.newest_revision);
    RemoveAnnotation(api::kUpgradeTurnAnnotation);
    step_.to = kFailed;
  }

  void RemoveGpuPods() {
    switch (facts_.gpu_pods.state) {
      case Removal::State::kNotBegun:
        step_.work = Work::kRemoveGpuPods;
        [[fallthrough]];
      case Removal::State::kUnderWay:
        step_.waits_for = "the pods that use its GPUs to go";
        return;
      case Removal::State::kDone:
        if (facts_.gpu_pods.pods > 0) {
          step_.events.push_back(
              {false, "Deleted workload pods on the node for the driver upgrade"});
        }
        step_.to = kPodRestartRequired;
        return;
      case Removal::State::kFailed:
        step_.events.push_back(
            {true, "Failed to delete workload pods on the node for the driver upgrade, " +
                       facts_.gpu_pods.why});
        if (policy_.drain_enabled) {
          step_.events.push_back({true,
                                  "Pod deletion failed but drain is enabled in spec. Will attempt "
                                  "a node drain"});
          step_.to = kDrainRequired;
        } else {
          Fail();
        }
        return;
    }
  }

  void Drain() {
    if (!policy_.drain_enabled) {
      step_.to = kPodRestartRequired;
      return;
    }
    switch (facts_.drain.state) {
      case Removal::State::kNotBegun:
        // Somebody may have made it schedulable in the meantime.
        if (!facts_.node.unschedulable) {
          step_.unschedulable = true;
          return;
        }
        step_.events.push_back({false, "Scheduling drain of the node"});
        step_.work = Work::kDrain;
        [[fallthrough]];
      case Removal::State::kUnderWay:
        step_.waits_for = "its pods to go";
        return;
      case Removal::State::kDone:
        step_.events.push_back({false, "Successfully drained the node"});
        step_.to = kPodRestartRequired;
        return;
      case Removal::State::kFailed:
        step_.events.push_back({true, "Failed to drain the node, " + facts_.drain.why});
        Fail();
        return;
    }
  }

  void RestartPod() {
    if (facts_.pod == nullptr || facts_.sync == Sync::kUnknown) {
      step_.waits_for = "the new pod of the driver";
      return;
    }
    if (facts_.sync != Sync::kInSync || facts_.pod->deleting) {
      step_.waits_for = "the former pod of the driver to end";
      if (!facts_.pod->deleting) step_.work = Work::kDeleteDriverPod;
      return;
    }
    if (WaitsForSafeLoad()) {
      RemoveAnnotation(api::kUpgradeSafeLoadAnnotation);
      return;
    }
    if (facts_.pod->ready) {
      step_.to = kValidationRequired;
    } else if (facts_.pod->failing) {
      Fail();
    } else {
      step_.waits_for = "the new driver to be ready";
    }
  }

  void Finish() {
    RemoveAnnotation(api::kUpgradeFailedRevisionAnnotation);
    RemoveAnnotation(api::kUpgradeValidationStartAnnotation);
    if (WasUnschedulable()) {
      RemoveAnnotation(api::kUpgradeInitiallyUnschedulableAnnotation);
      Complete();
    } else {
      step_.to = kUncordonRequired;
    }
  }

  void Complete() {
    if (!facts_.newest_revision.empty()) {
      Record record{
          .revision = facts_.newest_revision, .finished = facts_.now, .duration = std::nullopt};
      const auto turn = TimeAt(api::kUpgradeTurnAnnotation);
      if (turn && *turn <= UnixSeconds(facts_.now)) {
        record.duration = std::chrono::seconds(UnixSeconds(facts_.now) - *turn);
      }
      SetAnnotation(api::kUpgradeLastAnnotation, ToText(record));
    }
    RemoveAnnotation(api::kUpgradeTurnAnnotation);
    step_.to = kDone;
  }

  void Validate() {
    if (WaitsForSafeLoad()) {
      RemoveAnnotation(api::kUpgradeSafeLoadAnnotation);
      return;
    }
    if (IsValidated()) {
      Finish();
      return;
    }
    step_.waits_for = facts_.validators == 0 ? "a pod of the validator"
                                             : "the validator to find the new driver in order";
    if (TimeIsUp(api::kUpgradeValidationStartAnnotation, kValidationTimeout.count())) {
      RemoveAnnotation(api::kUpgradeValidationStartAnnotation);
      step_.events.push_back({true, fmt::format("The validator was not ready {} s after the driver",
                                                kValidationTimeout.count())});
      Fail();
    }
  }

  void Uncordon() {
    if (WasUnschedulable()) {
      RemoveAnnotation(api::kUpgradeInitiallyUnschedulableAnnotation);
    } else {
      step_.unschedulable = false;
    }
    Complete();
  }

  void Recover() {
    const std::string* failed_at = Annotation(api::kUpgradeFailedRevisionAnnotation);
    if (facts_.pod != nullptr && OnlyChangesHands()) {
      step_ = DecideHandOver();
      return;
    }
    const bool is_former =
        facts_.sync == Sync::kOutdated || facts_.succession == Succession::kOther;
    if (is_former && failed_at != nullptr && *failed_at != facts_.newest_revision) {
      // Another driver may do what that one did not.
      step_.to = kRequired;
      return;
    }
    if (facts_.sync == Sync::kInSync && facts_.pod != nullptr && facts_.pod->ready &&
        !facts_.pod->deleting && IsValidated()) {
      Finish();
      return;
    }
    step_.waits_for =
        "its driver pod to be of the newest version and ready, and its validator too; or another "
        "version of the driver";
  }

  const NodeFacts& facts_;
  const api::UpgradePolicy& policy_;
  Step step_;
};

}  // namespace

Step DecideStep(const NodeFacts& facts, const api::UpgradePolicy& policy) {
  return Decision(facts, policy).Decide();
}

bool RestsOnValidators(UpgradeState state, const Step& step) {
  return (state == kValidationRequired && step.to) ||
         (state == kFailed && (step.to == kUncordonRequired || step.to == kDone));
}

Step DecideRelease(const desired::Node& node) {
  Step step;
  if (node.labels.Has(api::kUpgradeState)) step.to = kNone;
  for (const std::string_view key :
       {api::kUpgradePodCompletionStartAnnotation, api::kUpgradeValidationStartAnnotation,
        api::kUpgradeTurnAnnotation, api::kUpgradeInitiallyUnschedulableAnnotation,
        api::kUpgradeFailedRevisionAnnotation, api::kUpgradeMetricsAnnotation}) {
    if (node.UpgradeNotes().contains(key)) step.annotations[std::string(key)] = std::nullopt;
  }
  if (desired::IsCordonedForUpgrade(node)) step.unschedulable = false;
  return step;
}

Step DecideHandOver() {
  Step step;
  step.work = Work::kHandOverPod;
  step.waits_for = "its driver's pod to have its new owner";
  return step;
}

Json PatchOf(const Step& step, std::string_view resource_version) {
  Json metadata = {{"resourceVersion", resource_version}};
  if (step.to) {
    const std::string_view name = NameOf(*step.to);
    metadata["labels"][std::string(api::kUpgradeState)] = name.empty() ? Json(nullptr) : Json(name);
  }
  for (const auto& [key, value] : step.annotations) {
    metadata["annotations"][key] = value ? Json(*value) : Json(nullptr);
  }
  Json patch = {{"metadata", std::move(metadata)}};
  if (step.unschedulable) {
    patch["spec"]["unschedulable"] = *step.unschedulable ? Json(true) : Json(nullptr);
  }
  return patch;
}

std::vector<Note> NotesOf(const Step& step) {
  std::vector<Note> notes;
  for (const auto& [key, value] : step.annotations) {
    if (std::ranges::find(kUntoldAnnotations, key) != std::end(kUntoldAnnotations)) continue;
    notes.push_back({false, fmt::format("Successfully updated node annotation to {}={}", key,
                                        value.value_or("null"))});
  }
  if (step.to && !NameOf(*step.to).empty()) {
    notes.push_back(
        {false, fmt::format("Successfully updated node state label to {}", NameOf(*step.to))});
  }
  notes.insert(notes.end(), step.events.begin(), step.events.end());
  return notes;
}

std::string DrainSelector(const api::UpgradePolicy& policy) {
  const std::string ours = fmt::format("{}!=true", api::kUpgradeDrainSkip);
  return policy.drain_pod_selector.empty() ? ours
                                           : fmt::format("{},{}", policy.drain_pod_selector, ours);
}

}  // namespace pitcrew::driver_upgrade
