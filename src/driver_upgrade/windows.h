// The windows of time in which nodes may begin their upgrade. Pure but for the database of time
// zones.
#pragma once

#include <optional>
#include <vector>

#include "api/upgrade_schedule.h"
#include "base/clock.h"

namespace pitcrew::driver_upgrade {

struct Opening {
  bool open = true;
  // When that changes; none when it does not within two weeks.
  std::optional<base::WallClock::time_point> until = std::nullopt;

  bool operator==(const Opening&) const = default;
};

// By the clocks on the wall of each window's zone: where they are set back over a window's start it
// opens the first time, over its end it closes the last time; what they are set forward over is not
// there. Without windows it is always open. A window of a zone that is not known is never open.
Opening WindowsAt(const std::vector<api::UpgradeWindow>& windows, base::WallClock::time_point now);

}  // namespace pitcrew::driver_upgrade
