// status of a ClusterPolicy as a pure function (reference operator-behaviour.md sections 4
// and 12.1).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/labels.h"
#include "base/clock.h"
#include "base/error.h"
#include "codec/json.h"
#include "desired/facts.h"
#include "desired/operand_report.h"

namespace pitcrew::desired {

// What a pass over a policy, or over another owner of operands, came to.
struct PolicyOutcome {
  // Of the object whose status it is.
  std::string_view kind = api::kClusterPolicyKind;
  // Why no operand could be looked at; then `operands` is empty.
  std::vector<std::string> failures;
  std::vector<OperandReport> operands;
  bool nfd_labels = false;
  bool gpu_nodes = false;
  // There is no GPU node yet, and there will be one in a moment.
  bool first_gpu_nodes_joining = false;
  // Why GPU nodes keep labels that they would lose (node_labels.h); "" normally.
  std::string removals_held;
  // What the served definition cannot hold (definitions.h); "" normally.
  std::string schema_outdated;
  // Why no other driver will be upgraded until a person does something; "" normally.
  std::string upgrade_stopped;
  // Drivers of NVIDIADriver objects are being upgraded, wait for that or have failed in it
  // (reference driver-lifecycle.md section 2.18).
  bool upgrades_incomplete = false;
};

enum class PolicyState { kReady, kNotReady, kIgnored };
std::string_view ToString(PolicyState state);
PolicyState StateOf(const PolicyOutcome& outcome);

// The new status. `previous` is the stored one (null when there is none): a condition keeps its
// lastTransitionTime while its status stays.
codec::Json MakeStatus(const PolicyOutcome& outcome, std::string_view operator_namespace,
                       std::int64_t generation, const codec::Json& previous,
                       base::WallClock::time_point now);

// The status of a policy that is not the active one.
codec::Json MakeIgnoredStatus(std::string_view active, std::string_view operator_namespace,
                              std::int64_t generation, const codec::Json& previous,
                              base::WallClock::time_point now);

// The statuses tell the same but for numbers and names in messages: progress, which need not be
// written each time.
bool OnlyMessagesDiffer(const codec::Json& a, const codec::Json& b);

// A condition that became another between two statuses, for Events.
struct Transition {
  std::string type;
  bool is_true = false;
  std::string reason;
  std::string message;
};
std::vector<Transition> TransitionsBetween(const codec::Json& before, const codec::Json& after);

// An Event about the policy.
struct Announcement {
  bool warning = false;
  std::string reason;
  std::string message;

  bool operator==(const Announcement&) const = default;
};
// One for each thing that is wrong, and one for all operands that make progress together: an API
// server and its clients let an object have few events.
std::vector<Announcement> Announce(const std::vector<Transition>& transitions);

}  // namespace pitcrew::desired
