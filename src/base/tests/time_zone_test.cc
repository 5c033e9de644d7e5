#include "base/time_zone.h"

#include <gtest/gtest.h>

namespace pitcrew::base {
namespace {

using std::chrono::days;
using std::chrono::local_days;
using std::chrono::year;

std::string Text(WallClock::time_point time) { return FormatRfc3339(time); }

TEST(TimeZone, DayByTheClocksOfTheZone) {
  const auto tokyo = TimeZone::Named("Asia/Tokyo");
  ASSERT_TRUE(tokyo);
  EXPECT_EQ(tokyo->DayAt(*ParseRfc3339("2026-03-01T14:59:59Z")), local_days(year(2026) / 3 / 1));
  EXPECT_EQ(tokyo->DayAt(*ParseRfc3339("2026-03-01T15:00:00Z")), local_days(year(2026) / 3 / 2));
}

TEST(TimeZone, MomentsOfADay) {
  const auto berlin = TimeZone::Named("Europe/Berlin");
  ASSERT_TRUE(berlin);
  const local_days summer(year(2026) / 7 / 1);
  EXPECT_EQ(Text(berlin->At(summer, 90).first), "2026-06-30T23:30:00Z");
  EXPECT_EQ(Text(berlin->At(summer, 90).last), "2026-06-30T23:30:00Z");
  EXPECT_EQ(berlin->At(summer, 1440).first, berlin->At(summer + days(1), 0).first);
  const local_days back(year(2026) / 10 / 25);
  EXPECT_EQ(Text(berlin->At(back, 150).first), "2026-10-25T00:30:00Z");
  EXPECT_EQ(Text(berlin->At(back, 150).last), "2026-10-25T01:30:00Z");
  const local_days forward(year(2026) / 3 / 29);
  EXPECT_EQ(Text(berlin->At(forward, 150).first), "2026-03-29T01:00:00Z");
  EXPECT_EQ(Text(berlin->At(forward, 150).last), "2026-03-29T01:00:00Z");
}

TEST(TimeZone, OnlyNamesOfTheDatabaseAreTaken) {
  EXPECT_TRUE(TimeZone::Named("UTC"));
  EXPECT_TRUE(TimeZone::Named("Etc/GMT+5"));
  for (const char* name : {"", "Mars/Olympus", "/etc/localtime", "../zoneinfo/UTC", "localtime",
                           "Fixed/UTC+01:00:00", "Europe"}) {
    const auto zone = TimeZone::Named(name);
    ASSERT_FALSE(zone) << name;
    EXPECT_EQ(zone.error().reason, "UnknownTimeZone") << name;
  }
}

}  // namespace
}  // namespace pitcrew::base
