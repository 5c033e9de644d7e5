// Clocks. Deadlines and back-off use SteadyClock; what people and the API read uses WallClock.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/result.h"

namespace pitcrew::base {

using SteadyClock = std::chrono::steady_clock;
using WallClock = std::chrono::system_clock;

// RFC 3339 in UTC with `fraction_digits` (0, 3 or 6) digits of a second: 2026-01-02T03:04:05Z.
std::string FormatRfc3339(WallClock::time_point time, int fraction_digits = 0);
// Accepts a fraction of any length and "Z" or a numeric offset. Times beyond the clock's range (the
// year 9999) become its first or last moment.
Result<WallClock::time_point> ParseRfc3339(std::string_view text);

// Go's duration text: "300ms", "1.5h", "2h45m"; "0" too. Negative values are accepted.
Result<std::chrono::nanoseconds> ParseGoDuration(std::string_view text);

}  // namespace pitcrew::base
