// One round of readings as series: a pure function of the plan, of NVML's answers, and of what is
// remembered.
#pragma once

#include <vector>

#include "base/result.h"
#include "gpu/inventory.h"
#include "node/metrics_exporter/history.h"
#include "node/metrics_exporter/plan.h"
#include "node/metrics_exporter/series.h"

namespace pitcrew::node::metrics_exporter {

struct Windows {
  Window xids = std::chrono::minutes(5);
  Window clock_events = std::chrono::minutes(5);
};

struct History {
  XidHistory xids;
  ClockEventHistory clock_events;
  CounterHistory counters;
  SlowCounterHistory retired_pages;  // after double-bit errors
};

struct RoundInput {
  const std::vector<Counter>& counters;
  const gpu::Inventory& inventory;
  const Plan& plan;
  const std::vector<base::Result<nvml::GpuAnswers>>& answers;  // to the plan's questions
  TimePoint now;
  Windows windows;
};

// A GPU that did not answer has no series, and stands in Round::gpus with its fault. Advances the
// history.
Round MakeRound(const RoundInput& input, History& history);

}  // namespace pitcrew::node::metrics_exporter
