// Counter files: which metrics to write, of what type, with what help (metrics-exporter.md section
// 3).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "node/metrics_exporter/fields.h"

namespace pitcrew::node::metrics_exporter {

// Metrics that are made of several readings (section 7).
enum class Derived : std::uint8_t {
  kNone,
  kXidCount,
  kClockEvents,
  kHealth,
  kPeerStatus,
  kUnknown
};

struct Counter {
  std::string name;  // as written
  std::string type;  // "gauge", "counter", "histogram", "summary", "label"
  std::string help;
  const Field* field = nullptr;  // null: `derived` says what it is
  Derived derived = Derived::kNone;

  [[nodiscard]] bool IsLabel() const { return type == "label"; }
  [[nodiscard]] unsigned Order() const;  // the field's number, DCGM_EXP_* behind
};

struct CounterFile {
  std::vector<Counter> counters;      // in the order of the file; a name twice counts once
  std::vector<std::string> warnings;  // sentences
};

// `source` names the text in errors: "counters.csv:3:17: ...". kInvalid "BadCounterFile" for a line
// that is no CSV, has not three cells, or names no field or no type.
base::Result<CounterFile> ParseCounters(std::string_view text, std::string_view source);

// The DCGM_EXP_* metric of that name; kNone when there is none.
Derived FindDerived(std::string_view name);

}  // namespace pitcrew::node::metrics_exporter
