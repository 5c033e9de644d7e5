#include <gtest/gtest.h>
#include <sys/stat.h>

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
  EXPECT_EQ(ParseRfc3339("0001-01-01T00:00:00Z"), WallClock::time_point::min());
  EXPECT_EQ(FormatRfc3339(WallClock::time_point::min(), 6), "1677-09-21T00:12:43.145224Z");
  EXPECT_EQ(FormatRfc3339(WallClock::time_point(std::chrono::milliseconds(-1)), 3),
            "1969-12-31T23:59:59.999Z");
  EXPECT_EQ(FormatRfc3339(*ParseRfc3339("2262-04-11T23:47:15.9Z"), 3), "2262-04-11T23:47:15.900Z");
  EXPECT_EQ(ParseRfc3339("2262-04-11T23:47:16.9Z"), WallClock::time_point::max())
      << "the last second is not whole";
}

TEST(Clock, Rfc3339InEveryForm) {
  const auto again = [](std::string_view text, int digits = 0) {
    const auto time = ParseRfc3339(text);
    return time ? FormatRfc3339(*time, digits) : "";
  };
  EXPECT_EQ(FormatRfc3339(WallClock::time_point()), "1970-01-01T00:00:00Z");
  EXPECT_EQ(again("1969-12-31T23:59:59.75Z", 3), "1969-12-31T23:59:59.750Z");
  EXPECT_EQ(again("2026-12-31T23:30:00z"), "2026-12-31T23:30:00Z");
  EXPECT_EQ(again("2026-12-31T23:30:00-01:15"), "2027-01-01T00:45:00Z");
  EXPECT_EQ(again("2026-01-02T03:04:05.123456789Z", 6), "2026-01-02T03:04:05.123456Z");
  EXPECT_EQ(again("2026-01-02T03:04:05.9Z", 3), "2026-01-02T03:04:05.900Z");
  for (const char* zone : {".Z", ".xZ", "+0130", "+01:3", "+01:30x", " 01:30", "+01.30", "+x1:30",
                           "+01:x0", "Zulu", ""}) {
    EXPECT_EQ(again("2026-01-02T03:04:05" + std::string(zone)), "") << zone;
  }
}

TEST(Clock, GoDurations) {
  using namespace std::chrono_literals;
  EXPECT_EQ(*ParseGoDuration("1h30m"), 90min);
  EXPECT_EQ(*ParseGoDuration("1.5s"), 1500ms);
  EXPECT_EQ(*ParseGoDuration("0"), 0ns);
  EXPECT_EQ(*ParseGoDuration("-2s"), -2s);
  EXPECT_EQ(*ParseGoDuration("+2s"), 2s);
  EXPECT_EQ(*ParseGoDuration("-0"), 0ns);
  EXPECT_EQ(*ParseGoDuration("1ns"), 1ns);
  for (const auto* text : {"7us", "7µs", "7μs"}) EXPECT_EQ(*ParseGoDuration(text), 7us) << text;
  EXPECT_EQ(*ParseGoDuration("2540400h"), std::chrono::hours(2540400)) << "290 years";
  for (const auto* bad : {"", "-", "+", "5", "s", "1x", "1h-3m", ".", "1.2.3s", "2562048h"})
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

TEST(Log, EveryCharacterHasItsForm) {
  const Field fields[] = {{"a", "x=y"}, {"b", ""}, {"c", "\\ \r\t\x1f"}, {"d", "\x7f-é"}};
  EXPECT_EQ(FormatLogLine(LogFormat::kText, LogLevel::kDebug, "T", "m", fields, 4),
            "T debug m a=\"x=y\" b=\"\" c=\"\\\\ \\r\\t\\u001f\" d=\x7f-é");
  EXPECT_EQ(FormatLogLine(LogFormat::kJson, LogLevel::kWarning, "T", "m", fields, 2),
            R"({"time":"T","level":"warn","message":"m","a":"x=y","b":""})");
}

TEST(Log, WritesWhatItsLevelLetsThrough) {
  const auto written = [](LogLevel level) {
    ConfigureLog({.level = level});
    ::testing::internal::CaptureStderr();
    LogDebug("one");
    LogWarning("two", NotFound("NoFile", "it is gone"), {{"file", "x"}});
    LogError("three");
    ConfigureLog({});
    std::string text;
    for (const auto& line : Split(::testing::internal::GetCapturedStderr(), '\n')) {
      // Without the time.
      if (!line.empty()) text += line.substr(line.find(' ')) + ";";
    }
    return text;
  };
  const std::string two = " warn  two file=x reason=NoFile error=\"it is gone\";";
  EXPECT_EQ(written(LogLevel::kDebug), " debug one;" + two + " error three;");
  EXPECT_EQ(written(LogLevel::kWarning), two + " error three;");
  EXPECT_EQ(written(LogLevel::kError), " error three;");
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
  EXPECT_EQ(ReplaceAll("aaa", "a", "aa"), "aaaaaa") << "what was put in is not looked at again";
  EXPECT_EQ(ReplaceAll("abc", "", "x"), "abc");
}

TEST(Strings, PiecesAndTheirEdges) {
  EXPECT_EQ(Split("", ','), std::vector<std::string>{""});
  EXPECT_EQ(Split(",a,", ','), (std::vector<std::string>{"", "a", ""}));
  EXPECT_EQ(Join({"", "a", ""}, ", "), ", a, ");
  EXPECT_EQ(Join({}, ", "), "");
  EXPECT_EQ(Trim(" \t\r\n\v\fa b\n"), "a b");
  EXPECT_EQ(Trim(" \n"), "");
  EXPECT_EQ(ToLower("AZ@[az09É"), "az@[az09É") << "of ASCII alone";
}

TEST(Strings, NumbersAreWholeTexts) {
  EXPECT_EQ(ParseUnsigned("18446744073709551615"), UINT64_MAX);
  EXPECT_EQ(ParseInteger("-9223372036854775808"), INT64_MIN);
  EXPECT_EQ(ParseDouble("-1.5e3"), -1500);
  for (const char* text : {"", " 1", "1x", "+1", "18446744073709551616"}) {
    EXPECT_FALSE(ParseUnsigned(text)) << text;
    EXPECT_FALSE(ParseInteger(text)) << text;
  }
  EXPECT_FALSE(ParseDouble("1.5x"));
  EXPECT_FALSE(ParseDouble(""));
  for (const char* yes : {"1", "t", "T", "TRUE", "true", "True"}) EXPECT_EQ(ParseGoBool(yes), true);
  for (const char* no : {"0", "f", "F", "FALSE", "false", "False"}) {
    EXPECT_EQ(ParseGoBool(no), false);
  }
  for (const char* text : {"", "yes", "tRUE", "2"}) EXPECT_FALSE(ParseGoBool(text)) << text;
}

TEST(File, AtomicWriteReplacesAndReadReportsAbsence) {
  const auto folder = std::filesystem::path(::testing::TempDir()) / "pitcrew-base-file";
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(WriteFileAtomically(folder / "x" / "y", "one"));
  ASSERT_TRUE(WriteFileAtomically(folder / "x" / "y", "two", 0600));
  EXPECT_EQ(*ReadFile(folder / "x" / "y"), "two");
  struct stat written{};
  ASSERT_EQ(::stat((folder / "x" / "y").c_str(), &written), 0);
  EXPECT_EQ(written.st_mode & 07777U, 0600U);
  EXPECT_EQ(ReadFile(folder / "none").error().code, Code::kNotFound);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder / "x"), {}), 1);
}

TEST(File, AWriteThatFailsLeavesNothing) {
  const auto folder = std::filesystem::path(::testing::TempDir()) / "pitcrew-base-failing";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder / "taken");
  EXPECT_FALSE(WriteFileAtomically(folder / "taken", "x")) << "a folder has the name";
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
  const std::string large(100'000, 'y');
  ASSERT_TRUE(WriteFileAtomically(folder / "large", large));
  EXPECT_EQ(*ReadFile(folder / "large"), large);
  EXPECT_FALSE(WriteFileAtomically(folder / "large" / "below", "x")) << "a file is no folder";
  EXPECT_FALSE(ReadFile(folder / "taken")) << "a folder is no file";
}

}  // namespace
}  // namespace pitcrew::base
