// The result of a qualification: what was found of each GPU, for people and programs.
#pragma once

#include <string>
#include <vector>

#include "api/qualification.h"
#include "base/clock.h"
#include "codec/json.h"
#include "node/qualification/verdict.h"

namespace pitcrew::node::qualification {

struct Report {
  std::string node;  // empty: not told
  base::WallClock::time_point time;
  double seconds = 0;
  std::string driver_version;
  std::vector<GpuReport> gpus;

  // All GPUs have passed, and there are some.
  [[nodiscard]] bool passed() const;
  // "2 of 8 GPUs failed: GPU 3: memory: ...".
  [[nodiscard]] std::string Summary() const;
};

codec::Json ToJson(const Report& report);
// For a terminal: one line for each check.
std::string ToText(const Report& report);
// What the Node tells (api/qualification.h).
api::Qualification ForNode(const Report& report);

}  // namespace pitcrew::node::qualification
