// Counter files, and the table of fields behind them.
#include "node/metrics_exporter/counters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/file.h"
#include "node/metrics_exporter/csv.h"
#include "tests/support/folders.h"

namespace pitcrew::node::metrics_exporter {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::string ErrorOf(std::string_view text) {
  const auto file = ParseCounters(text, "counters.csv");
  return file ? "" : file.error().message;
}

TEST(Counters, ARowIsNameTypeHelp) {
  RecordProperty("holds", "metrics-exporter.md #1, #4");
  const auto file = ParseCounters(
      "# a comment\n\nDCGM_FI_DEV_GPU_TEMP, gauge, temperature\nDCGM_FI_DEV_DEC_UTIL , gauge, x\n",
      "c");
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_THAT(file->counters, SizeIs(2));
  EXPECT_EQ(file->counters[0].name, "DCGM_FI_DEV_GPU_TEMP");
  EXPECT_EQ(file->counters[0].type, "gauge");
  EXPECT_EQ(file->counters[0].help, "temperature");
  EXPECT_EQ(file->counters[0].field->id, 150);
  EXPECT_EQ(file->counters[1].name, "DCGM_FI_DEV_DEC_UTIL");
}

TEST(Counters, NamesThatAreNoneAreRefusedWithTheirPlace) {
  RecordProperty("holds", "metrics-exporter.md #2");
  EXPECT_THAT(
      ErrorOf("DCGM_FI_DEV_GPU_TEMP, gauge, t\nDCGM_EXP_XID_ERRORS_COUNTXXX, gauge, t\n"),
      HasSubstr("counters.csv:2:1: could not find DCGM field: unknown ExporterCounter field "
                "'DCGM_EXP_XID_ERRORS_COUNTXXX'"));
  // Names are exact.
  EXPECT_THAT(ErrorOf("dcgm_fi_dev_gpu_temp, gauge, t\n"), HasSubstr("counters.csv:1:1"));
}

TEST(Counters, OtherThanThreeCellsAreRefused) {
  RecordProperty("holds", "metrics-exporter.md #3");
  EXPECT_THAT(ErrorOf("DCGM_FI_DEV_GPU_TEMP, gauge\n"),
              HasSubstr("counters.csv:1:1: malformed CSV record: 2 cells, expected 3 fields"));
  EXPECT_THAT(ErrorOf("DCGM_FI_DEV_GPU_TEMP, gauge, hot, very\n"), HasSubstr("4 cells"));
  EXPECT_EQ(ErrorOf("DCGM_FI_DEV_GPU_TEMP,gauge,\"hot, very\"\n"), "");
}

TEST(Counters, TypesAreThoseOfPrometheusAndLabel) {
  RecordProperty("holds", "metrics-exporter.md #5");
  EXPECT_THAT(ErrorOf("DCGM_FI_DEV_GPU_TEMP, untyped, t\n"), HasSubstr("counters.csv:1:22: "));
  for (const std::string type : {"gauge", "counter", "histogram", "summary", "label"}) {
    EXPECT_EQ(ErrorOf("DCGM_FI_DEV_GPU_TEMP, " + type + ", t\n"), "") << type;
  }
  // Upstream takes any type for these rows, and writes it.
  EXPECT_THAT(ErrorOf("DCGM_EXP_P2P_STATUS, untyped, t\n"), HasSubstr("'untyped'"));
}

TEST(Counters, OldAndNewNamesMeanTheSameField) {
  RecordProperty("holds", "metrics-exporter.md #6, #7");
  const auto file = ParseCounters(
      "dcgm_gpu_temp, gauge, x\nDCGM_FI_DEV_GPU_TEMP_CELSIUS, gauge, x\n"
      "DCGM_FI_DEV_GPU_TEMP, gauge, x\n",
      "c");
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_THAT(file->counters, SizeIs(3));
  for (const auto& counter : file->counters) EXPECT_EQ(counter.field->id, 150) << counter.name;
  EXPECT_EQ(file->counters[0].name, "dcgm_gpu_temp");
  EXPECT_EQ(file->counters[1].name, "DCGM_FI_DEV_GPU_TEMP_CELSIUS");
}

TEST(Counters, MetricsOfSeveralReadingsHaveTheirNames) {
  RecordProperty("holds", "metrics-exporter.md #14");
  EXPECT_EQ(FindDerived("DCGM_EXP_XID_ERRORS_COUNT"), Derived::kXidCount);
  EXPECT_EQ(FindDerived("DCGM_EXP_CLOCK_EVENTS_COUNT"), Derived::kClockEvents);
  EXPECT_EQ(FindDerived("DCGM_EXP_GPU_HEALTH_STATUS"), Derived::kHealth);
  EXPECT_EQ(FindDerived("DCGM_EXP_P2P_STATUS"), Derived::kPeerStatus);
  EXPECT_EQ(FindDerived("DCGM_FI_UNKNOWN"), Derived::kUnknown);
  EXPECT_EQ(FindDerived("DCGM_EXP_OTHER"), Derived::kNone);
}

std::vector<Counter> Shipped(const std::string& name) {
  const auto text = base::ReadFile(test_support::SourceFolder() / "deploy/counters" / name);
  EXPECT_TRUE(text) << text.error().message;
  const auto file = ParseCounters(*text, name);
  EXPECT_TRUE(file) << file.error().message;
  EXPECT_THAT(file->warnings, IsEmpty());
  return file->counters;
}

TEST(Counters, TheShippedFilesHaveUpstreamsCounters) {
  RecordProperty("holds", "metrics-exporter.md #8");
  for (const auto* name : {"default-counters.csv", "dcp-metrics-included.csv"}) {
    const auto counters = Shipped(name);
    EXPECT_THAT(counters, SizeIs(26)) << name;
    EXPECT_EQ(std::ranges::count_if(counters, &Counter::IsLabel), 1) << name;
    for (const auto& counter : counters) {
      EXPECT_NE(counter.field->source.kind, Source::Kind::kNothing) << counter.name;
    }
  }
  EXPECT_THAT(Shipped("1.x-compatibility-metrics.csv"), SizeIs(20));
}

TEST(Counters, ANameTwiceCountsOnce) {
  const auto file =
      ParseCounters("DCGM_FI_DEV_GPU_TEMP, gauge, a\nDCGM_FI_DEV_GPU_TEMP, counter, b\n", "c.csv");
  ASSERT_TRUE(file);
  ASSERT_THAT(file->counters, SizeIs(1));
  EXPECT_EQ(file->counters[0].help, "a");
  EXPECT_THAT(file->warnings, ElementsAre(HasSubstr("c.csv:2")));
}

TEST(Csv, QuotesAsInGo) {
  const auto records = ParseCsv("a,\"b \"\"c\"\",\nd\",e\r\n\r\n#x\nf,,\n");
  ASSERT_TRUE(records) << records.error().message;
  ASSERT_THAT(*records, SizeIs(2));
  EXPECT_EQ((*records)[0][1].text, "b \"c\",\nd");
  EXPECT_EQ((*records)[0][2].text, "e");
  EXPECT_THAT((*records)[1], SizeIs(3));
  EXPECT_EQ((*records)[1][0].line, 5U);
}

TEST(Csv, MistakesHaveTheirPlace) {
  EXPECT_THAT(ParseCsv("a, \"b\",c\n").error().message, HasSubstr("1:4: "));
  EXPECT_THAT(ParseCsv("x\na,\"b\"c\n").error().message, HasSubstr("2:6: "));
  EXPECT_THAT(ParseCsv("a,\"b").error().message, HasSubstr("1:3: "));
}

TEST(Fields, EveryNameIsOneFields) {
  std::set<std::string> names;
  std::set<unsigned> ids;
  for (const auto& field : AllFields()) {
    EXPECT_TRUE(ids.insert(field.id).second) << field.id;
    EXPECT_TRUE(names.insert(std::string(field.name)).second) << field.name;
    if (!field.older.empty()) {
      EXPECT_TRUE(names.insert(std::string(field.older)).second) << field.older;
    }
    const bool silent = field.source.kind == Source::Kind::kNothing;
    EXPECT_EQ(silent, !field.source.reason.empty()) << field.name;
  }
  EXPECT_TRUE(std::ranges::is_sorted(AllFields(), {}, &Field::id));
}

// Numbers that a real driver (580.159.04) answers by, and that go-nvml's nvml.h and
// nvidia-ml-py 13.580 have: the power smoothing of a board lies before the counters of clock event
// reasons. Some headers had it the other way round.
TEST(Fields, ClockEventReasonsAskForTheirOwnFieldValues) {
  const auto number = [](const std::string& name) {
    return FindField("DCGM_FI_DEV_" + name)->source.question.number;
  };
  EXPECT_EQ(number("CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS"), 269);
  EXPECT_EQ(number("CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS"), 270);
  EXPECT_EQ(number("CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS"), 271);
  EXPECT_EQ(number("PWR_SMOOTHING_ENABLED"), 251);
  EXPECT_EQ(number("PWR_SMOOTHING_ADMIN_OVERRIDE_RAMP_DOWN_HYST_VAL"), 268);
}

}  // namespace
}  // namespace pitcrew::node::metrics_exporter
