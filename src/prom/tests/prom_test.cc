// Prometheus' text format: https://prometheus.io/docs/instrumenting/exposition_formats, version
// 0.0.4.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <thread>

#include "prom/exposition.h"
#include "prom/process.h"
#include "prom/registry.h"
#include "prom/sample.h"

namespace pitcrew::prom {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Exposition, LabelsAreEscapedAndBucketsCumulated) {
  Exposition exposition;
  exposition.AddGauge("b", "help", 1.5, {{"path", "a\"b\\c\nd"}});
  exposition.AddHistogram("a_seconds", "help", {0.5, 1}, {2, 0, 1}, 7.25, {{"x", "y"}});
  exposition.AddGauge("b", "help", 2);
  EXPECT_EQ(exposition.Text(),
            "# HELP a_seconds help\n# TYPE a_seconds histogram\n"
            "a_seconds_bucket{x=\"y\",le=\"0.5\"} 2\n"
            "a_seconds_bucket{x=\"y\",le=\"1\"} 2\n"
            "a_seconds_bucket{x=\"y\",le=\"+Inf\"} 3\n"
            "a_seconds_sum{x=\"y\"} 7.25\n"
            "a_seconds_count{x=\"y\"} 3\n"
            "# HELP b help\n# TYPE b gauge\n"
            "b{path=\"a\\\"b\\\\c\\nd\"} 1.5\nb 2\n");
}

TEST(Exposition, HelpTextsKeepToTheirLine) {
  Exposition exposition;
  exposition.AddGauge("a", "one\ntwo \"quoted\" \\ three", 1);
  EXPECT_THAT(exposition.Text(),
              HasSubstr("# HELP a one\\ntwo \"quoted\" \\\\ three\n# TYPE a gauge\n"));
}

TEST(Exposition, NumbersAsGoReadsThem) {
  Exposition exposition;
  const double infinite = std::numeric_limits<double>::infinity();
  exposition.AddGauge("a", "", infinite);
  exposition.AddGauge("a", "", -infinite);
  exposition.AddGauge("a", "", std::numeric_limits<double>::quiet_NaN());
  exposition.AddGauge("a", "", -std::numeric_limits<double>::quiet_NaN());
  exposition.AddGauge("a", "", 1e21);
  EXPECT_THAT(exposition.Text(), HasSubstr("\na +Inf\na -Inf\na NaN\na NaN\na 1e+21\n"));
}

TEST(Names, OfMetricsAndLabels) {
  for (const char* name : {"a", "_a1", "DCGM_FI_DEV_GPU_TEMP", "job:rate"}) {
    EXPECT_TRUE(CheckMetricName(name)) << name;
  }
  for (const char* name : {"", "1a", "a-b", "a b", "ä"})
    EXPECT_FALSE(CheckMetricName(name)) << name;
  EXPECT_TRUE(CheckLabelName("pod"));
  for (const char* name : {"", "a:b", "__name__", "a.b"})
    EXPECT_FALSE(CheckLabelName(name)) << name;
}

TEST(Registry, SeriesComeWithTheirFirstValueAndGoWhenRemoved) {
  Registry registry;
  Gauge& gauge = **registry.MakeGauge("temperature", "In C", {"gpu", "pod"});
  EXPECT_EQ(registry.Render(), "") << "a family without series has no lines";
  gauge.Set(40, {"0", "a"});
  gauge.Set(41, {"0", "a"});
  gauge.Add(2, {"1", "b"});
  gauge.Set(9, {"2", "b"});
  EXPECT_EQ(registry.Render(),
            "# HELP temperature In C\n# TYPE temperature gauge\n"
            "temperature{gpu=\"0\",pod=\"a\"} 41\ntemperature{gpu=\"1\",pod=\"b\"} 2\n"
            "temperature{gpu=\"2\",pod=\"b\"} 9\n");
  gauge.Remove({"1", "b"});
  EXPECT_THAT(registry.Render(), Not(HasSubstr("gpu=\"1\"")));
  gauge.Remove({"2", "b"});
  gauge.Remove({"0", "a"});
  EXPECT_EQ(registry.Render(), "");
}

TEST(Registry, ACounterNeverFalls) {
  Registry registry;
  Counter& counter = **registry.MakeCounter("passes_total", "Passes");
  counter.Add();
  counter.Add(-3);
  counter.Add(std::numeric_limits<double>::quiet_NaN());
  counter.Add(2.5);
  EXPECT_THAT(registry.Render(), HasSubstr("passes_total 3.5\n"));
}

TEST(Registry, RefusesWhatPrometheusWouldNotTake) {
  Registry registry;
  EXPECT_TRUE(registry.MakeGauge("a", ""));
  EXPECT_EQ(registry.MakeCounter("a", "").error().reason, "MetricExists");
  EXPECT_EQ(registry.MakeGauge("a-b", "").error().reason, "InvalidMetricName");
  EXPECT_EQ(registry.MakeGauge("b", "", {"__x"}).error().reason, "InvalidLabelName");
}

TEST(Registry, CollectorsAddUntilTheirTokenGoes) {
  std::shared_ptr<void> longest;
  {
    Registry registry;
    auto token = registry.Collect([](Exposition& exposition) { exposition.AddGauge("x", "X", 1); });
    longest = registry.Collect([](Exposition& exposition) { exposition.AddGauge("x", "X", 2); });
    EXPECT_THAT(registry.Render(), HasSubstr("x 1\nx 2\n"));
    token.reset();
    EXPECT_THAT(registry.Render(), Not(HasSubstr("x 1\n")));
  }
  longest.reset();  // after the registry
}

TEST(Registry, MayBeUsedFromSeveralThreads) {
  Registry registry;
  Counter& counter = **registry.MakeCounter("n_total", "", {"thread"});
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, label = std::to_string(thread % 2)] {
      for (int i = 0; i < 1000; ++i) counter.Add(1, {label});
    });
  }
  for (int i = 0; i < 20; ++i) (void)registry.Render();
  for (auto& thread : threads) thread.join();
  EXPECT_THAT(registry.Render(),
              HasSubstr("n_total{thread=\"0\"} 2000\nn_total{thread=\"1\"} 2000\n"));
}

TEST(Process, TellsOfItself) {
  Exposition exposition;
  ExposeProcess(exposition);
  for (const char* name : {"process_cpu_seconds_total", "process_resident_memory_bytes",
                           "process_open_fds", "process_max_fds", "process_start_time_seconds"}) {
    EXPECT_THAT(exposition.Text(), HasSubstr("\n" + std::string(name) + " "));
  }
}

TEST(Sample, IsReadFromALine) {
  const auto sample = ReadSample(
      "DCGM_FI_DEV_XID_ERRORS{gpu=\"1\",UUID=\"GPU-61\",err_msg=\"a, \"b\" c\"} 79 1700000000");
  ASSERT_TRUE(sample);
  EXPECT_EQ(sample->name, "DCGM_FI_DEV_XID_ERRORS");
  EXPECT_EQ(sample->Label("UUID", "uuid"), "GPU-61");
  EXPECT_EQ(sample->Label("number", "gpu"), "1") << "by the former name";
  EXPECT_EQ(sample->Label("none"), "");
  EXPECT_EQ(sample->Label("err_msg"), "a, \"b\" c") << "nothing is escaped";
  EXPECT_EQ(sample->value, 79);
}

TEST(Sample, OtherLinesAreNone) {
  for (const char* line : {"", "# HELP a b", "a 1", "a{b=\"c\"", "a{b=\"c\"} ", "a{b=\"c\"} NaN",
                           "a{b=c} 1", "a{b=\"c\"} +Inf"}) {
    EXPECT_FALSE(ReadSample(line)) << line;
  }
}

TEST(Sample, OfAWholePage) {
  std::vector<double> values;
  ForEachSample("# TYPE a gauge\na{b=\"c\"} 1\nnone\n\na{b=\"d\"} 2",
                [&](const Sample& sample) { values.push_back(sample.value); });
  EXPECT_EQ(values, (std::vector<double>{1, 2}));
}

}  // namespace
}  // namespace pitcrew::prom
