#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/observed.h"
#include "base/strings.h"

namespace pitcrew::base {
namespace {

TEST(Clock, Rfc3339RoundTrip) {
  const auto time = ParseRfc3339("2026-01-02T03:04:05.678+01:30");
  ASSERT_TRUE(time);
  EXPECT_EQ(FormatRfc3339(*time, 3), "2026-01-02T01:34:05.678Z");
  EXPECT_FALSE(ParseRfc3339("2026-01-02"));
  EXPECT_FALSE(ParseRfc3339("2026-01-02T03:04:05"));
  EXPECT_EQ(ParseRfc3339("9999-12-31T23:59:59Z"), WallClock::time_point::max());
}

TEST(Clock, GoDurations) {
  using namespace std::chrono_literals;
  EXPECT_EQ(*ParseGoDuration("1h30m"), 90min);
  EXPECT_EQ(*ParseGoDuration("1.5s"), 1500ms);
  EXPECT_EQ(*ParseGoDuration("0"), 0ns);
  EXPECT_EQ(*ParseGoDuration("-2s"), -2s);
  for (const auto* bad : {"", "5", "s", "1x", "1h-3m", "."})
    EXPECT_FALSE(ParseGoDuration(bad)) << bad;
}

TEST(Observed, OnlyNotFoundIsAbsence) {
  EXPECT_TRUE(Observed<int>::From(Fail(NotFound("NotFound", "no"))).is_absent());
  EXPECT_TRUE(Observed<int>::From(Fail(Unavailable("Down", "no"))).is_unknown());
  EXPECT_TRUE(Observed<int>::From(3).is_present());
}

TEST(Log, TextQuotesWhatNeedsIt) {
  const Field fields[] = {{"node", "a"}, {"error", "it is \"broken\"\n"}, {"count", 3}};
  EXPECT_EQ(FormatLogLine(LogFormat::kText, LogLevel::kInfo, "T", "hello", fields, 3),
            "T info  hello node=a error=\"it is \\\"broken\\\"\\n\" count=3");
  EXPECT_EQ(FormatLogLine(LogFormat::kJson, LogLevel::kError, "T", "hello", fields, 1),
            R"({"time":"T","level":"error","message":"hello","node":"a"})");
}

TEST(Strings, Fnv1aKnownVectors) {
  EXPECT_EQ(HashFnv1a32(""), 2166136261U);
  EXPECT_EQ(HashFnv1a32("a"), 0xe40c292cU);
  EXPECT_EQ(HashFnv1a32("foobar"), 0xbf9cf968U);
}

TEST(Strings, SplitAndParse) {
  EXPECT_EQ(SplitTrimmed(" a, ,b ,", ','), (std::vector<std::string>{"a", "b"}));
  EXPECT_FALSE(ParseUnsigned("-1"));
  EXPECT_FALSE(ParseUnsigned("1 "));
  EXPECT_TRUE(*ParseGoBool("T"));
  EXPECT_EQ(ReplaceAll("aXbX", "X", "--"), "a--b--");
}

TEST(File, AtomicWriteReplacesAndReadReportsAbsence) {
  const auto folder = std::filesystem::path(::testing::TempDir()) / "pitcrew-base-file";
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(WriteFileAtomically(folder / "x" / "y", "one"));
  ASSERT_TRUE(WriteFileAtomically(folder / "x" / "y", "two", 0600));
  EXPECT_EQ(*ReadFile(folder / "x" / "y"), "two");
  EXPECT_EQ(ReadFile(folder / "none").error().code, Code::kNotFound);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder / "x"), {}), 1);
}

}  // namespace
}  // namespace pitcrew::base
