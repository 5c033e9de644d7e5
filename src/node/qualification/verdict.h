// Judging what was measured: absolute rules for every GPU, and what the model's entry expects.
// Pure. The rules about counters are those of NVIDIA's health checks (metrics-exporter.md section
// 11).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "node/qualification/measurement.h"

namespace pitcrew::node::qualification {

enum class Outcome {
  kPassed,
  kNoted,    // passed, with something to know
  kUnknown,  // not measured, or nothing to measure it by
  kFailed,
};
std::string_view ToString(Outcome outcome);  // "passed", "noted", "unknown", "failed"

struct Check {
  std::string name;  // "memory", "host-to-device", ...
  Outcome outcome = Outcome::kUnknown;
  std::optional<double> value;  // in `unit`
  std::optional<double> least;  // what it has to reach, in `unit`
  std::string unit;
  std::string text;  // one clause: what was seen, or why nothing was
  bool operator==(const Check&) const = default;
};

struct GpuReport {
  unsigned index = 0;
  std::string uuid;
  std::string name;
  std::string pci;
  std::string model;  // name of its entry; empty: not in the table, judged by absolute rules only
  std::vector<Check> checks;

  [[nodiscard]] bool passed() const;
  // Of failed checks: "memory: 3 words ...".
  [[nodiscard]] std::vector<std::string> Failures() const;
};

GpuReport Judge(const Measurement& measurement);

}  // namespace pitcrew::node::qualification
