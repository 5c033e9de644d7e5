// What a Node tells of the qualification of its GPUs: the label says the state, the annotation of
// the same name why. Upstream has no such thing.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pitcrew::api {

// Label (the state in a word) and annotation (JSON, below) of a Node.
inline constexpr std::string_view kQualification = "nvidia.com/gpu-operator.qualification";

// Taint of a Node, without a value, effect NoSchedule: its GPUs have not passed yet. The operator
// puts it where spec.validator.qualification.required says so, and takes it away on proof.
inline constexpr std::string_view kNotQualifiedTaint = "nvidia.com/gpu-operator.not-qualified";
inline constexpr std::string_view kNotQualifiedEffect = "NoSchedule";
constexpr bool IsNotQualifiedTaint(std::string_view key, std::string_view effect) {
  return key == kNotQualifiedTaint && effect == kNotQualifiedEffect;
}

enum class QualificationState { kPending, kRunning, kPassed, kFailed };
std::string_view ToString(QualificationState state);  // "pending", ...
std::optional<QualificationState> ParseQualificationState(std::string_view word);

struct QualifiedGpu {
  unsigned index = 0;  // on the node, as NVML counts
  std::string uuid;
  std::string name;
  bool passed = false;
  std::vector<std::string> failures;  // of checks: "memory: 3 wrong words ..."
  bool operator==(const QualifiedGpu&) const = default;
};

struct Qualification {
  QualificationState state = QualificationState::kPending;
  std::string time;            // RFC 3339: when this state began
  std::string driver_version;  // that the GPUs were tested with; empty before
  std::string boot_id;  // of the node while they were tested (status.nodeInfo.bootID); "": not told
  std::string message;  // one sentence
  std::vector<QualifiedGpu> gpus;
  bool operator==(const Qualification&) const = default;
};

// JSON. Long lists of failures are cut: an annotation is for people and has a limit.
std::string ToText(const Qualification& qualification);
// Nothing for a text of another form.
std::optional<Qualification> ParseQualification(std::string_view text);

}  // namespace pitcrew::api
