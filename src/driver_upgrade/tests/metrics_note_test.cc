// What metrics say against a driver (metrics-exporter.md section 3.3: series and when they are
// there).
#include "driver_upgrade/metrics_note.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codec/yaml.h"

namespace pitcrew::driver_upgrade {
namespace {

using ::testing::HasSubstr;

const Record kRecord{.revision = "v2",
                     .finished = *base::ParseRfc3339("2026-03-02T12:00:00Z"),
                     .duration = std::nullopt};
base::WallClock::time_point After(int seconds) {
  return kRecord.finished + std::chrono::seconds(seconds);
}

// Two GPUs, with these series of the second one.
std::string Page(const std::map<std::string, double>& series) {
  std::string page = "# HELP DCGM_FI_DEV_GPU_TEMP x\n# TYPE DCGM_FI_DEV_GPU_TEMP gauge\n";
  for (const char* gpu : {"a", "b"}) {
    page += std::string("DCGM_FI_DEV_GPU_TEMP{gpu=\"0\",UUID=\"GPU-") + gpu + "\"} 40\n";
  }
  for (const auto& [name, value] : series) {
    page += name + "{gpu=\"1\",UUID=\"GPU-b\",pod=\"x\"} " + std::to_string(value) + "\n";
  }
  return page;
}

std::string Evidence(const std::map<std::string, double>& first,
                     const std::map<std::string, double>& now) {
  return EvidenceIn(ReadGpuReadings(Page(first)), ReadGpuReadings(Page(now)), 2);
}

TEST(GpuReadings, AreOfEachGpu) {
  const auto readings =
      ReadGpuReadings(Page({{"DCGM_FI_DEV_XID_ERRORS", 31}, {"DCGM_FI_DEV_FB_USED", 7}}) +
                      // Another pod, an MIG instance, another exporter's series, and no GPU's.
                      "DCGM_FI_DEV_XID_ERRORS{gpu=\"1\",UUID=\"GPU-b\",GPU_I_ID=\"1\"} 79\n"
                      "DCGM_FI_DEV_XID_ERRORS{gpu=\"1\",UUID=\"GPU-b\",GPU_I_ID=\"2\"} 13\n"
                      "other{gpu=\"2\",UUID=\"GPU-c\"} 1\nDCGM_FI_DEV_CPU_TEMP{cpu=\"0\"} 1\n");
  EXPECT_EQ(readings, (GpuReadings{{{"GPU-a", {}}, {"GPU-b", {{"DCGM_FI_DEV_XID_ERRORS", 79}}}}}));
  EXPECT_TRUE(ReadGpuReadings("<html>\n").gpus.empty());
}

TEST(Evidence, IsAnotherXid) {
  EXPECT_EQ(Evidence({}, {}), "");
  EXPECT_EQ(Evidence({}, {{"DCGM_FI_DEV_XID_ERRORS", 0}}), "");
  EXPECT_EQ(Evidence({{"DCGM_FI_DEV_XID_ERRORS", 31}}, {{"DCGM_FI_DEV_XID_ERRORS", 31}}), "")
      << "it was there before, and never goes";
  EXPECT_EQ(Evidence({{"DCGM_FI_DEV_XID_ERRORS", 31}}, {}), "") << "a new start of the exporter";
  EXPECT_EQ(Evidence({}, {{"DCGM_FI_DEV_XID_ERRORS", 79}}), "GPU GPU-b has had XID 79");
  EXPECT_EQ(Evidence({{"DCGM_FI_DEV_XID_ERRORS", 31}}, {{"DCGM_FI_DEV_XID_ERRORS", 48}}),
            "GPU GPU-b has had XID 48");
}

TEST(Evidence, IsACounterThatHasRisen) {
  for (const char* counter :
       {"DCGM_FI_DEV_ROW_REMAP_FAILURE", "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
        "DCGM_FI_DEV_ROW_REMAP_PENDING", "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
        "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL"}) {
    EXPECT_EQ(Evidence({{counter, 1}}, {{counter, 1}}), "") << counter;
    EXPECT_EQ(Evidence({{counter, 1}}, {{counter, 0}}), "") << "counted anew: " << counter;
    EXPECT_EQ(Evidence({}, {{counter, 1}}), "") << "it was not told before: " << counter;
    EXPECT_THAT(Evidence({{counter, 1}}, {{counter, 3}}),
                HasSubstr("(" + std::string(counter) + " 3, was 1)"));
  }
  EXPECT_EQ(Evidence({{"DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", 1}},
                     {{"DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", 2}}),
            "");
}

TEST(Evidence, IsAGpuThatIsMissing) {
  const GpuReadings two{{{"GPU-a", {}}, {"GPU-b", {}}}};
  const GpuReadings one{{{"GPU-a", {}}}};
  EXPECT_EQ(EvidenceIn(two, one, std::nullopt),
            "GPU GPU-b is missing: the metrics exporter knows of 1, and knew of 2");
  EXPECT_EQ(EvidenceIn(one, two, std::nullopt), "");
  EXPECT_EQ(EvidenceIn(one, one, 2), "the metrics exporter knows of 1 GPUs, and the node offers 2");
  EXPECT_EQ(EvidenceIn(two, two, 1), "") << "one may be a virtual machine's";
}

TEST(OfferedGpus, CountGpusOnly) {
  const auto offered = [](const std::string& labels, const std::string& capacity) {
    return OfferedGpus(*codec::ParseYaml("{metadata: {labels: {" + labels +
                                         "}}, status: {capacity: {" + capacity + "}}}"));
  };
  EXPECT_EQ(offered("", "nvidia.com/gpu: '8'"), 8);
  EXPECT_EQ(offered("nvidia.com/gpu.replicas: '1'", "nvidia.com/gpu: '8'"), 8);
  EXPECT_EQ(offered("", "cpu: '8'"), std::nullopt);
  EXPECT_EQ(offered("", "nvidia.com/gpu: '0'"), std::nullopt);
  EXPECT_EQ(offered("nvidia.com/gpu.replicas: '4'", "nvidia.com/gpu: '32'"), std::nullopt);
  EXPECT_EQ(offered("nvidia.com/gpu.product: NVIDIA-H100-MIG-1g.10gb", "nvidia.com/gpu: '7'"),
            std::nullopt);
}

const GpuReadings kTwo = ReadGpuReadings(Page({{"DCGM_FI_DEV_XID_ERRORS", 31}}));
const base::Result<GpuReadings> kUnread =
    base::Fail(base::Unavailable("ConnectionRefused", "nobody listens"));

TEST(MetricsNote, KeepsTheFirstReading) {
  const MetricsNote begin = NoteAfter(std::nullopt, kRecord, After(1), kTwo, 2);
  EXPECT_EQ(begin.first, kTwo);
  EXPECT_EQ(begin.against, "") << "an XID of before";
  const auto later = ReadGpuReadings(Page({{"DCGM_FI_DEV_XID_ERRORS", 79}}));
  const MetricsNote end = NoteAfter(begin, kRecord, After(60), later, 2);
  EXPECT_EQ(end.first, kTwo);
  EXPECT_EQ(end.looked, After(60));
  EXPECT_EQ(end.against, "GPU GPU-b has had XID 79");
  // What cannot be read any longer is not mended; what can, is.
  const MetricsNote unread = NoteAfter(end, kRecord, After(120), kUnread, 2);
  EXPECT_EQ(unread.against, end.against);
  EXPECT_EQ(unread.unknown, "nobody listens");
  EXPECT_EQ(
      NoteAfter(unread, kRecord, After(180), kTwo, 2),
      (MetricsNote{
          .revision = "v2", .finished = kRecord.finished, .looked = After(180), .first = kTwo}));
  // Of another upgrade: anew.
  const Record next{.revision = "v3", .finished = After(500), .duration = std::nullopt};
  EXPECT_EQ(NoteAfter(end, next, After(501), later, 2).against, "");
}

TEST(MetricsNote, WhatCannotBeReadIsUnknown) {
  const MetricsNote none = NoteAfter(std::nullopt, kRecord, After(1), kUnread, 2);
  EXPECT_EQ(none.unknown, "nobody listens");
  EXPECT_EQ(none.first, std::nullopt);
  EXPECT_EQ(none.against, "");
  const MetricsNote empty = NoteAfter(none, kRecord, After(2), GpuReadings{}, 2);
  EXPECT_EQ(empty.unknown, "the metrics exporter tells of no GPU");
  EXPECT_EQ(empty.against, "");
  EXPECT_EQ(NoteAfter(empty, kRecord, After(3), kTwo, 2).first, kTwo);
}

TEST(MetricsNote, IsReadAsItWasWritten) {
  for (const MetricsNote& note : {NoteAfter(std::nullopt, kRecord, After(1), kTwo, 3),
                                  NoteAfter(std::nullopt, kRecord, After(1), kUnread, 2)}) {
    EXPECT_EQ(ReadMetricsNote(ToText(note)), note);
  }
  for (const char* text : {"", "x", "[]", "{}", R"({"finished":"2026-03-02T12:00:00Z"})",
                           R"({"finished":"x","looked":"2026-03-02T12:00:00Z"})"}) {
    EXPECT_EQ(ReadMetricsNote(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace pitcrew::driver_upgrade
