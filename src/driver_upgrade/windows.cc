#include "driver_upgrade/windows.h"

#include <algorithm>
#include <utility>

#include "base/time_zone.h"

namespace pitcrew::driver_upgrade {
namespace {

using std::chrono::days;
using Time = base::WallClock::time_point;
using Interval = std::pair<Time, Time>;

// A week, and another for windows that a change of the clock takes away; before, what may still be
// open.
constexpr days kBefore{2};
constexpr days kAhead{15};

void AddIntervals(const api::UpgradeWindow& window, Time now, std::vector<Interval>& intervals) {
  const auto zone = base::TimeZone::Named(window.time_zone);
  if (!zone) return;
  const std::chrono::local_days today = zone->DayAt(now);
  for (std::chrono::local_days day = today - kBefore; day <= today + kAhead; day += days(1)) {
    if (!window.days[std::chrono::weekday(day).c_encoding()]) continue;
    const bool over_midnight = window.end <= window.start;
    const Interval interval(zone->At(day, window.start).first,
                            zone->At(over_midnight ? day + days(1) : day, window.end).last);
    if (interval.first < interval.second) intervals.push_back(interval);
  }
}

}  // namespace

Opening WindowsAt(const std::vector<api::UpgradeWindow>& windows, Time now) {
  if (windows.empty()) return {};
  std::vector<Interval> intervals;
  for (const api::UpgradeWindow& window : windows) AddIntervals(window, now, intervals);
  std::ranges::sort(intervals);
  std::optional<Time> closes;
  for (const auto& [start, end] : intervals) {
    // What begins where another ends goes on with it.
    if (start <= closes.value_or(now)) {
      if (end > closes.value_or(now)) closes = end;
    } else if (!closes) {
      return {.open = false, .until = start};
    }
  }
  if (!closes) return {.open = false};
  // Windows without a gap between them.
  if (*closes >= now + kAhead - days(1)) return {.open = true};
  return {.open = true, .until = closes};
}

}  // namespace pitcrew::driver_upgrade
