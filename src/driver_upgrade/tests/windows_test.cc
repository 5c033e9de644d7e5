// When windows are open: expectations come from the zones' rules (the IANA database, Europe: the
// last Sundays of March and October at 01:00 UTC; America/New_York: 2 a.m. of the second Sunday of
// March).
#include "driver_upgrade/windows.h"

#include <gtest/gtest.h>

#include "codec/yaml.h"
#include "support_cases.h"

namespace pitcrew::driver_upgrade {
namespace {

using codec::Json;

// "open until 2026-03-07T21:00:00Z", "closed".
std::string At(const std::string& windows, std::string_view now) {
  const auto schedule = codec::ParseYaml("{schedule: {windows: " + windows + "}}");
  EXPECT_TRUE(schedule) << windows;
  const Opening opening =
      WindowsAt(testing::PolicyOf(*schedule).schedule.windows, *base::ParseRfc3339(now));
  const std::string what = opening.open ? "open" : "closed";
  return opening.until ? what + " until " + base::FormatRfc3339(*opening.until) : what;
}

TEST(Windows, NoneIsAnyTime) { EXPECT_EQ(At("[]", "2026-03-02T12:00:00Z"), "open"); }

TEST(Windows, OnADay) {
  const char* const window = R"([{days: [Monday, Thursday], start: "09:00", end: "17:30"}])";
  EXPECT_EQ(At(window, "2026-03-02T08:59:59Z"), "closed until 2026-03-02T09:00:00Z");
  EXPECT_EQ(At(window, "2026-03-02T09:00:00Z"), "open until 2026-03-02T17:30:00Z");
  EXPECT_EQ(At(window, "2026-03-02T17:30:00Z"), "closed until 2026-03-05T09:00:00Z");
  EXPECT_EQ(At(window, "2026-03-05T17:30:00Z"), "closed until 2026-03-09T09:00:00Z");
}

TEST(Windows, OverMidnightTheyAreOfTheDayOnWhichTheyOpen) {
  const char* const window = R"([{days: [Saturday], start: "22:00", end: "04:00"}])";
  EXPECT_EQ(At(window, "2026-03-07T03:00:00Z"), "closed until 2026-03-07T22:00:00Z");
  EXPECT_EQ(At(window, "2026-03-08T03:59:00Z"), "open until 2026-03-08T04:00:00Z");
  EXPECT_EQ(At(window, "2026-03-08T22:30:00Z"), "closed until 2026-03-14T22:00:00Z");
}

TEST(Windows, WhatAdjoinsGoesOn) {
  EXPECT_EQ(At(R"([{start: "01:00", end: "02:00"}, {start: "02:00", end: "03:00"},
                   {start: "02:30", end: "05:00"}])",
               "2026-03-02T01:30:00Z"),
            "open until 2026-03-02T05:00:00Z");
  EXPECT_EQ(At(R"([{start: "00:00", end: "24:00"}])", "2026-03-02T01:30:00Z"), "open");
  EXPECT_EQ(
      At(R"([{days: [Saturday, Sunday], start: "00:00", end: "24:00"}])", "2026-03-07T01:30:00Z"),
      "open until 2026-03-09T00:00:00Z");
}

TEST(Windows, ByTheClocksOfTheirZone) {
  const char* const window = R"([{start: "22:00", end: "23:00", timeZone: Europe/Berlin}])";
  EXPECT_EQ(At(window, "2026-01-10T12:00:00Z"), "closed until 2026-01-10T21:00:00Z");
  EXPECT_EQ(At(window, "2026-07-10T12:00:00Z"), "closed until 2026-07-10T20:00:00Z");
  // It is Monday there already.
  EXPECT_EQ(At(R"([{days: [Monday], start: "01:00", end: "02:00", timeZone: Asia/Tokyo}])",
               "2026-03-01T16:30:00Z"),
            "open until 2026-03-01T17:00:00Z");
}

TEST(Windows, ClocksAreSetForward) {
  // On 29 March 2026 there is no time between 2:00 and 3:00 in Berlin.
  const char* const inside =
      R"([{days: [Sunday], start: "02:15", end: "02:45", timeZone: Europe/Berlin}])";
  EXPECT_EQ(At(inside, "2026-03-29T00:00:00Z"), "closed until 2026-04-05T00:15:00Z");
  const char* const behind = R"([{start: "02:30", end: "04:00", timeZone: Europe/Berlin}])";
  EXPECT_EQ(At(behind, "2026-03-29T00:00:00Z"), "closed until 2026-03-29T01:00:00Z");
  EXPECT_EQ(At(behind, "2026-03-29T01:30:00Z"), "open until 2026-03-29T02:00:00Z");
  const char* const before = R"([{start: "01:00", end: "02:30", timeZone: America/New_York}])";
  EXPECT_EQ(At(before, "2026-03-08T06:30:00Z"), "open until 2026-03-08T07:00:00Z");
}

TEST(Windows, ClocksAreSetBack) {
  // On 25 October 2026 the hour from 2:00 is there twice in Berlin.
  const char* const window =
      R"([{days: [Sunday], start: "02:15", end: "02:45", timeZone: Europe/Berlin}])";
  EXPECT_EQ(At(window, "2026-10-25T00:00:00Z"), "closed until 2026-10-25T00:15:00Z");
  EXPECT_EQ(At(window, "2026-10-25T00:50:00Z"), "open until 2026-10-25T01:45:00Z");
  EXPECT_EQ(At(window, "2026-10-25T01:46:00Z"), "closed until 2026-11-01T01:15:00Z");
}

TEST(Windows, OfAZoneThatIsNotKnownIsNeverOpen) {
  api::UpgradeWindow window;
  window.time_zone = "Europe/Atlantis";
  EXPECT_EQ(WindowsAt({window}, *base::ParseRfc3339("2026-03-02T12:00:00Z")),
            (Opening{.open = false, .until = std::nullopt}));
}

}  // namespace
}  // namespace pitcrew::driver_upgrade
