// Time zones by their names in the IANA database ("Europe/Berlin"), with their changes of the
// clock. Read from the folder that $TZDIR names, by default /usr/share/zoneinfo.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"

namespace pitcrew::base {

// A value; copies share the zone. Thread-safe.
class TimeZone {
 public:
  // kInvalid "UnknownTimeZone" when the database has no such zone, or is not there. "UTC" always
  // is.
  static Result<TimeZone> Named(const std::string& name);

  // The day that the calendar of the zone shows at that time.
  [[nodiscard]] std::chrono::local_days DayAt(WallClock::time_point time) const;

  // When the clocks of the zone show so many minutes after the beginning of a day; 1440 is the
  // beginning of the next. Twice where clocks are set back. Where they are set forward over it,
  // both are the moment at which that is done.
  struct Moments {
    WallClock::time_point first;
    WallClock::time_point last;
  };
  [[nodiscard]] Moments At(std::chrono::local_days day, int minutes) const;

 private:
  struct Zone;
  explicit TimeZone(std::shared_ptr<const Zone> zone) : zone_(std::move(zone)) {}

  std::shared_ptr<const Zone> zone_;
};

}  // namespace pitcrew::base
