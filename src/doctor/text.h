// Reports as text for people.
#pragma once

#include <string>

#include "fleet/report.h"

namespace pitcrew::doctor {

struct TextOptions {
  bool colours = false;  // for terminals only
  bool wide = false;
  bool all = false;       // every node on a line of its own
  std::size_t width = 0;  // of the terminal; 0: lines are as long as they are
};

std::string StatusText(const fleet::Report& report, const TextOptions& options);
// `asked`: nodes or pods were named, and each is told in full.
std::string DoctorText(const fleet::Report& report, const TextOptions& options, bool asked);

// "47s", "12m", "5h", "3d": how long something has lasted; "-" when that is not known.
std::string Age(fleet::Time since, base::WallClock::time_point now);
// GPUs that a node offers: "8/8", "3/4 nvidia.com/gpu.shared 2/2 nvidia.com/mig-1g.10gb"; "-"
// when it offers nothing.
std::string Gpus(const fleet::NodeReport& node);

}  // namespace pitcrew::doctor
