#include "desired/status.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/strings.h"
#include "desired/conditions.h"
#include "desired/operand_table.h"

namespace pitcrew::desired {
namespace {

using codec::Json;

constexpr const char* kUnknown = "Unknown";
constexpr std::string_view kNodeLabelsReady = "NodeLabelsReady";

// Upstream's words, which scripts look for.
constexpr std::string_view kUpgradesIncomplete =
    "; NVIDIADriver upgrade has not completed; one or more NVIDIADriver-owned Nodes are marked "
    "pending, in-progress, or failed";

std::vector<std::string> StatesThatAre(const PolicyOutcome& outcome, Verdict verdict) {
  std::vector<std::string> states;
  for (const OperandReport& report : outcome.operands) {
    if (report.verdict == verdict) states.emplace_back(report.state);
  }
  return states;
}

// What went wrong. A field that several operands share is told once, with all of them.
std::vector<std::string> FailuresOf(const PolicyOutcome& outcome) {
  std::vector<std::pair<std::string_view, std::string>> states_of;  // message -> states
  for (const OperandReport& report : outcome.operands) {
    if (report.verdict != Verdict::kFailed) continue;
    const auto known =
        std::ranges::find(states_of, report.message, [](const auto& entry) { return entry.first; });
    if (known == states_of.end()) {
      states_of.emplace_back(report.message, report.state);
    } else {
      known->second += fmt::format(", {}", report.state);
    }
  }
  std::vector<std::string> failures = outcome.failures;
  for (const auto& [message, states] : states_of) {
    failures.push_back(fmt::format("Failed to reconcile {}: {}", states, message));
  }
  return failures;
}

void AddSummary(Conditions& conditions, const PolicyOutcome& outcome) {
  const std::vector<std::string> failures = FailuresOf(outcome);
  if (!failures.empty()) {
    conditions.AddError("ReconcileFailed", base::Join(failures, "; "));
  } else if (const auto states = StatesThatAre(outcome, Verdict::kNotReady);
             !states.empty() || outcome.upgrades_incomplete) {
    conditions.AddError(
        "OperandNotReady",
        fmt::format(
            "{} is not ready{}{}", outcome.kind,
            states.empty() ? "" : fmt::format("; states not ready: [{}]", base::Join(states, " ")),
            outcome.upgrades_incomplete ? kUpgradesIncomplete : ""));
  } else if (outcome.first_gpu_nodes_joining) {
    conditions.AddError(
        "OperandNotReady",
        fmt::format("{} is not ready; the first GPU nodes are being labelled", outcome.kind));
  } else if (!outcome.nfd_labels) {
    conditions.AddReady(
        "NFDLabelsMissing",
        "no node has a label of node feature discovery: without them GPU nodes are not found");
  } else if (!outcome.gpu_nodes) {
    conditions.AddReady("NoGPUNodes", "no node has a GPU; watching for one to join");
  } else {
    conditions.AddReady("Reconciled", "every operand is as the policy wants it");
  }
}

}  // namespace

std::string_view ToString(PolicyState state) {
  switch (state) {
    case PolicyState::kReady:
      return "ready";
    case PolicyState::kNotReady:
      return "notReady";
    case PolicyState::kIgnored:
      return "ignored";
  }
  return "";
}

PolicyState StateOf(const PolicyOutcome& outcome) {
  const bool settled = std::ranges::all_of(outcome.operands, [](const OperandReport& report) {
    return report.verdict == Verdict::kReady || report.verdict == Verdict::kDisabled;
  });
  return outcome.failures.empty() && settled && !outcome.first_gpu_nodes_joining &&
                 !outcome.upgrades_incomplete
             ? PolicyState::kReady
             : PolicyState::kNotReady;
}

Json MakeStatus(const PolicyOutcome& outcome, std::string_view operator_namespace,
                std::int64_t generation, const Json& previous, base::WallClock::time_point now) {
  Conditions conditions(generation, previous, now);
  AddSummary(conditions, outcome);
  for (const OperandReport& report : outcome.operands) {
    const bool good = report.verdict == Verdict::kReady || report.verdict == Verdict::kDisabled;
    conditions.Add(report.condition, good, report.reason, report.message);
  }
  // Nobody has looked at the operands: that is not to be taken for their being gone.
  if (outcome.operands.empty() && !outcome.failures.empty()) {
    for (const Operand& operand : Operands()) {
      conditions.AddStatus(operand.condition, kUnknown, "NotLookedAt",
                           base::Join(outcome.failures, "; "));
    }
  }
  if (!outcome.removals_held.empty()) {
    conditions.Add(kNodeLabelsReady, false, "MassRemovalHeld", outcome.removals_held);
  }
  if (!outcome.schema_outdated.empty()) {
    conditions.Add("SchemaReady", false, "SchemaOutdated", outcome.schema_outdated);
  }
  if (!outcome.upgrade_stopped.empty()) {
    conditions.Add("DriverUpgradeReady", false, "UpgradeStopped", outcome.upgrade_stopped);
  }
  return {{"state", ToString(StateOf(outcome))},
          {"namespace", operator_namespace},
          {"conditions", conditions.Take()}};
}

Json MakeIgnoredStatus(std::string_view active, std::string_view operator_namespace,
                       std::int64_t generation, const Json& previous,
                       base::WallClock::time_point now) {
  Conditions conditions(generation, previous, now);
  conditions.Add("Ready", false, "Ignored",
                 fmt::format("ClusterPolicy {} is older and is the active one", active));
  conditions.Add("Error", false, "Ignored", "");
  return {{"state", ToString(PolicyState::kIgnored)},
          {"namespace", operator_namespace},
          {"conditions", conditions.Take()}};
}

bool OnlyMessagesDiffer(const Json& a, const Json& b) {
  const auto without_messages = [](Json status) {
    if (const auto conditions = status.find("conditions"); conditions != status.end()) {
      for (Json& condition : *conditions) condition.erase("message");
    }
    return status;
  };
  return a.is_object() && b.is_object() && without_messages(a) == without_messages(b);
}

namespace {

// Whether a person should hear of `condition`, which was `known` before (null: it was not there).
bool IsNews(const Json& condition, const Json* known) {
  const bool is_true = codec::FindString(condition, {"status"}) == "True";
  // That nothing could be looked at, Ready tells once for all; nor is it news that all is as
  // before.
  if (codec::FindString(condition, {"status"}) == kUnknown) return false;
  if (known != nullptr && codec::FindString(*known, {"status"}) == kUnknown) return !is_true;
  // An operand that is off or fine from the beginning is none.
  if (known == nullptr) return !is_true || codec::FindString(condition, {"type"}) == "Ready";
  const std::string reason = codec::FindString(condition, {"reason"});
  if (codec::FindString(*known, {"status"}) != codec::FindString(condition, {"status"}) ||
      codec::FindString(*known, {"reason"}) != reason) {
    return true;
  }
  // The policy was changed, and is wrong in another way now.
  const auto differs = [&](const char* member) { return (*known)[member] != condition[member]; };
  return !is_true && reason != "RollingOut" && !codec::FindString(condition, {"message"}).empty() &&
         differs("message") && differs("observedGeneration");
}

}  // namespace

std::vector<Transition> TransitionsBetween(const Json& before, const Json& after) {
  std::vector<Transition> transitions;
  const Json* conditions = codec::Find(after, {"conditions"});
  if (conditions == nullptr) return transitions;
  for (const Json& condition : *conditions) {
    const std::string type = codec::FindString(condition, {"type"});
    // "Error" only mirrors "Ready".
    if (type == "Error" || !IsNews(condition, Conditions::Find(before, type))) continue;
    const bool is_true = codec::FindString(condition, {"status"}) == "True";
    // Why it is not ready stands in its mirror.
    const Json* error = type == "Ready" && !is_true ? Conditions::Find(after, "Error") : nullptr;
    const bool mirrored = error != nullptr && codec::FindString(*error, {"status"}) == "True";
    const Json& source = mirrored ? *error : condition;
    transitions.push_back({.type = type,
                           .is_true = is_true,
                           .reason = codec::FindString(source, {"reason"}),
                           .message = codec::FindString(source, {"message"})});
  }
  // It is there only while it is False.
  if (Conditions::Find(before, kNodeLabelsReady) != nullptr &&
      Conditions::Find(after, kNodeLabelsReady) == nullptr) {
    transitions.push_back({.type = std::string(kNodeLabelsReady),
                           .is_true = true,
                           .reason = "RemovalsGoOn",
                           .message = "no labels of nodes are held back any longer"});
  }
  return transitions;
}

std::vector<Announcement> Announce(const std::vector<Transition>& transitions) {
  std::vector<Announcement> announcements;
  std::map<std::string, std::vector<const Transition*>> progress;  // by reason
  for (const Transition& transition : transitions) {
    const bool waiting =
        transition.reason == "RollingOut" || transition.reason == "OperandNotReady";
    const bool fine = transition.is_true || waiting;
    if (fine && transition.type != "Ready" && transition.type != kNodeLabelsReady) {
      progress[transition.reason].push_back(&transition);
      continue;
    }
    announcements.push_back(
        {.warning = !fine,
         .reason = transition.reason,
         .message = fmt::format("{}: {}", transition.type, transition.message)});
  }
  for (const auto& [reason, operands] : progress) {
    std::vector<std::string> types;
    for (const Transition* operand : operands) types.push_back(operand->type);
    announcements.push_back(
        {.reason = reason,
         .message = operands.size() == 1
                        ? fmt::format("{}: {}", types.front(), operands.front()->message)
                        : fmt::format("{} are {} now", base::Join(types, ", "),
                                      operands.front()->is_true ? "True" : "False")});
  }
  return announcements;
}

}  // namespace pitcrew::desired
