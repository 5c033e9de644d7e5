#include "driver_upgrade/record.h"

#include <gtest/gtest.h>

namespace pitcrew::driver_upgrade {
namespace {

TEST(Record, IsReadAsItWasWritten) {
  Record record{.revision = "6d4f8b",
                .finished = *base::ParseRfc3339("2026-01-02T03:04:05Z"),
                .duration = std::chrono::seconds(187)};
  EXPECT_EQ(ToText(record),
            R"({"finished":"2026-01-02T03:04:05Z","revision":"6d4f8b","seconds":187})");
  EXPECT_EQ(ReadRecord(ToText(record)), record);
  record.duration.reset();
  EXPECT_EQ(ReadRecord(ToText(record)), record);
}

TEST(Record, WhatSomebodyElseWroteIsNone) {
  for (const char* text :
       {"", "{}", "[]", "yes", R"({"revision":"a"})", R"({"finished":"2026-01-02T03:04:05Z"})",
        R"({"revision":"a","finished":"soon"})"}) {
    EXPECT_EQ(ReadRecord(text), std::nullopt) << text;
  }
  const auto odd = ReadRecord(R"({"revision":"a","finished":"2026-01-02T03:04:05Z","seconds":-1})");
  ASSERT_TRUE(odd);
  EXPECT_EQ(odd->duration, std::nullopt);
}

}  // namespace
}  // namespace pitcrew::driver_upgrade
