#include "base/time_zone.h"

#include <absl/time/civil_time.h>
#include <absl/time/time.h>
#include <fmt/format.h>

namespace pitcrew::base {
namespace {

// Abseil takes paths of any file, and names of its own, for zones.
bool IsZoneName(const std::string& name) {
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+-/";
  return !name.empty() && name.front() != '/' &&
         name.find_first_not_of(kAllowed) == std::string::npos && name != "localtime" &&
         !name.starts_with("Fixed/");
}

}  // namespace

struct TimeZone::Zone {
  absl::TimeZone zone;
};

Result<TimeZone> TimeZone::Named(const std::string& name) {
  auto zone = std::make_shared<Zone>();
  if (!IsZoneName(name) || !absl::LoadTimeZone(name, &zone->zone)) {
    return Fail(Invalid("UnknownTimeZone",
                        fmt::format("no time zone \"{}\" is known; its name is one of the IANA "
                                    "database, like \"Europe/Berlin\" or \"UTC\"",
                                    name)));
  }
  return TimeZone(std::move(zone));
}

std::chrono::local_days TimeZone::DayAt(WallClock::time_point time) const {
  const absl::CivilDay day(zone_->zone.At(absl::FromChrono(time)).cs);
  return std::chrono::local_days(std::chrono::days(day - absl::CivilDay(1970, 1, 1)));
}

TimeZone::Moments TimeZone::At(std::chrono::local_days day, int minutes) const {
  const absl::CivilDay civil_day =
      absl::CivilDay(1970, 1, 1) + static_cast<int>(day.time_since_epoch().count());
  const absl::CivilSecond second = absl::CivilSecond(civil_day) + std::int64_t{60} * minutes;
  const absl::TimeZone::TimeInfo info = zone_->zone.At(second);
  switch (info.kind) {
    case absl::TimeZone::TimeInfo::UNIQUE:
      break;
    case absl::TimeZone::TimeInfo::REPEATED:
      return {absl::ToChronoTime(info.pre), absl::ToChronoTime(info.post)};
    case absl::TimeZone::TimeInfo::SKIPPED:
      return {absl::ToChronoTime(info.trans), absl::ToChronoTime(info.trans)};
  }
  return {absl::ToChronoTime(info.pre), absl::ToChronoTime(info.pre)};
}

}  // namespace pitcrew::base
