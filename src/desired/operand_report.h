// How far an operand is, as a value: what a roll-out found, and what the policy's status tells.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "desired/lagging_pod.h"
#include "desired/owned_object.h"

namespace pitcrew::desired {

enum class Verdict { kReady, kNotReady, kDisabled, kFailed };

// When a failed operand is worth another try.
enum class Retry {
  kWhenChanged,  // the policy is wrong: a person has to change something, which the watch tells
  kLater,        // the API server refused it: another rule of admission may let it in
  kSoon,         // with a back-off
};

// How far one DaemonSet of an operand is.
struct DaemonSetProgress {
  std::string name;
  // It stands as it was rendered; otherwise the numbers are those of what stood before.
  bool current = false;
  DaemonSetStatus status = {};

  [[nodiscard]] bool ready() const { return current && IsReady(status); }
  bool operator==(const DaemonSetProgress&) const = default;
};
// "DaemonSet x: 3 of 5 pods are ready; node gpu-2 is behind: pod x-abcde: container y: ...".
std::string Describe(const DaemonSetProgress& progress, const std::optional<LaggingPod>& lagging);

// What became of one operand.
struct OperandReport {
  std::string_view state;
  std::string_view condition;
  Verdict verdict = Verdict::kNotReady;
  std::string reason;                 // CamelCase, of the condition
  std::string message;                // for a person
  Retry retry = Retry::kWhenChanged;  // where it failed
  std::chrono::nanoseconds duration{0};
  std::vector<DaemonSetProgress> daemonsets = {};

  bool operator==(const OperandReport&) const = default;
};

}  // namespace pitcrew::desired
