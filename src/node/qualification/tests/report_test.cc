// Texts and values of a report, and the pipe between the processes.
#include "node/qualification/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/file.h"
#include "codec/yaml.h"
#include "node/qualification/exercise.h"
#include "node/qualification/options.h"
#include "node/qualification/tell.h"
#include "tests/support/folders.h"

namespace pitcrew::node::qualification {
namespace {

using codec::Json;
using ::testing::HasSubstr;

Check MakeCheck(std::string name, Outcome outcome, std::string text) {
  Check check;
  check.name = std::move(name);
  check.outcome = outcome;
  check.text = std::move(text);
  return check;
}

// One good GPU of the table, and one of a model that is not in it whose memory is bad.
Report MakeReport() {
  GpuReport good{.index = 0,
                 .uuid = "GPU-a",
                 .name = "NVIDIA H100 80GB HBM3",
                 .pci = "0000:1b:00.0",
                 .model = "H100-SXM5-80GB",
                 .checks = {}};
  auto bandwidth =
      MakeCheck("host-to-device", Outcome::kPassed, "53.0 GB/s, at least 37.8 are expected");
  bandwidth.value = 53;
  bandwidth.least = 37.8;
  bandwidth.unit = "GB/s";
  good.checks = {MakeCheck("memory", Outcome::kPassed, "64.00 GiB hold 5 patterns"), bandwidth};
  GpuReport bad{.index = 1,
                .uuid = "GPU-b",
                .name = "NVIDIA New",
                .pci = "0000:1c:00.0",
                .model = "",
                .checks = {}};
  bad.checks = {MakeCheck("memory", Outcome::kFailed, "3 wrong words"),
                MakeCheck("nvlink", Outcome::kUnknown, "no link is up")};
  Report report;
  report.node = "gpu-7";
  report.time = *base::ParseRfc3339("2026-11-23T08:00:00Z");
  report.seconds = 74.2;
  report.driver_version = "580.95.05";
  report.gpus = {good, bad};
  return report;
}

void ExpectGolden(const std::string& name, const std::string& text) {
  const auto file = test_support::TestData() / name;
  if (std::getenv("PITCREW_UPDATE_GOLDEN") != nullptr) {
    ASSERT_TRUE(base::WriteFileAtomically(file, text));
  }
  EXPECT_EQ(text, base::ReadFile(file).value_or("")) << file;
}

TEST(Report, TextForATerminal) { ExpectGolden("report.txt", ToText(MakeReport())); }

TEST(Report, ValuesForPrograms) {
  ExpectGolden("report.yaml", codec::ToYamlText(ToJson(MakeReport())));
}

TEST(Report, PassesOnlyWhenThereAreGpusAndAllPass) {
  auto report = MakeReport();
  EXPECT_FALSE(report.passed());
  EXPECT_EQ(report.Summary(), "1 of 2 GPUs failed: GPU 1: memory: 3 wrong words");
  report.gpus.pop_back();
  EXPECT_TRUE(report.passed());
  EXPECT_EQ(report.Summary(), "1 of 1 GPUs passed");
  report.gpus.clear();
  EXPECT_FALSE(report.passed());
}

TEST(Report, WhatTheNodeTellsIsReadBack) {
  const auto told = ForNode(MakeReport());
  EXPECT_EQ(told.state, api::QualificationState::kFailed);
  EXPECT_EQ(api::ParseQualification(api::ToText(told)), told);
  EXPECT_EQ(api::ParseQualification("{}"), std::nullopt);
  EXPECT_EQ(api::ParseQualification("passed"), std::nullopt);
}

Json NodeThatTells(const Report& report, const std::string& boot) {
  auto told = ForNode(report);
  told.boot_id = boot;
  return {{"metadata", {{"annotations", {{std::string(api::kQualification), api::ToText(told)}}}}},
          {"status", {{"nodeInfo", {{"bootID", "now"}}}}}};
}

TEST(Report, APassStandsForTheSameGpusAndDriver) {
  auto report = MakeReport();
  report.gpus[1].checks = report.gpus[0].checks;
  const Json node = NodeThatTells(report, "before");
  EXPECT_EQ(StandingResult(node, {"580.95.05", {"GPU-b", "GPU-a"}}),
            api::QualificationState::kPassed);
  EXPECT_EQ(StandingResult(node, {"590.1", {"GPU-a", "GPU-b"}}), std::nullopt) << "another driver";
  EXPECT_EQ(StandingResult(node, {"580.95.05", {"GPU-a", "GPU-c"}}), std::nullopt) << "another GPU";
  EXPECT_EQ(StandingResult(node, {"580.95.05", {"GPU-a"}}), std::nullopt);
  EXPECT_EQ(StandingResult(Json::object(), {"580.95.05", {"GPU-a"}}), std::nullopt);
}

TEST(Report, AFailureStandsUntilTheNodeStartsAnew) {
  const Found found{"580.95.05", {"GPU-a", "GPU-b"}};
  EXPECT_EQ(StandingResult(NodeThatTells(MakeReport(), "now"), found),
            api::QualificationState::kFailed);
  EXPECT_EQ(StandingResult(NodeThatTells(MakeReport(), "before"), found), std::nullopt);
  EXPECT_EQ(StandingResult(NodeThatTells(MakeReport(), ""), found), std::nullopt) << "not known";
}

TEST(Exercise, GoesThroughThePipe) {
  Exercise exercise;
  exercise.memory = MemoryTest{.asked = 8,
                               .tested = 4,
                               .patterns = 5,
                               .wrong_words = 1,
                               .first = WrongWord{4, 0xffffffff, 0xfffffffe}};
  exercise.bandwidths = Bandwidths{1.5e9, 2.5e9, 3e12};
  exercise.load = UnderLoad{.sm_clock_mhz = 1980,
                            .highest_sm_clock_mhz = std::nullopt,
                            .clock_reasons = 4,
                            .pcie_generation = 5,
                            .pcie_width = 16,
                            .highest_pcie_generation = 5,
                            .highest_pcie_width = 16};
  exercise.peer = PeerCopy{.bytes_per_second = 4e11, .direct = true, .wrong_words = 2};
  const auto read = ParseExercise(codec::ToJsonText(ToJson(exercise)));
  ASSERT_TRUE(read);
  EXPECT_EQ(ToJson(*read), ToJson(exercise));
  EXPECT_EQ(read->memory->first, exercise.memory->first);
  EXPECT_EQ(read->load->highest_sm_clock_mhz, std::nullopt);
  EXPECT_FALSE(ParseExercise("Segmentation fault"));
}

TEST(Amounts, SharesAndBytes) {
  EXPECT_DOUBLE_EQ(ParseAmount("90%")->share, 0.9);
  EXPECT_EQ(ParseAmount("16Gi")->bytes, 16ULL << 30);
  EXPECT_EQ(ParseAmount("512Mi")->bytes, 512ULL << 20);
  EXPECT_EQ(ParseAmount("4096")->bytes, 4096u);
  for (const auto* text : {"", "%", "0%", "101%", "0", "-1", "5GB", "Gi", "1e3", "9999999Ti"}) {
    EXPECT_FALSE(ParseAmount(text)) << text;
  }
}

std::string Refused(std::vector<const char*> words) {
  words.insert(words.begin(), "qualify");
  const auto options = ReadOptions(static_cast<int>(words.size()), words.data(),
                                   [](const std::string&) { return std::nullopt; });
  if (options) return "";
  EXPECT_EQ(options.error().code, base::Code::kInvalid);
  return options.error().message;
}

TEST(CommandLine, WhatIsRefused) {
  EXPECT_EQ(Refused({}), "");
  EXPECT_EQ(Refused({"--memory", "1Gi", "-o", "json", "--deadline", "5m"}), "");
  EXPECT_EQ(Refused({"--tell", "--if-needed", "-n", "gpu-7"}), "");
  EXPECT_THAT(Refused({"--memory", "much"}), HasSubstr("90%, 16Gi"));
  EXPECT_THAT(Refused({"-o", "xml"}), HasSubstr("text, json, yaml"));
  EXPECT_THAT(Refused({"--tell"}), HasSubstr("--node-name"));
  EXPECT_THAT(Refused({"--if-needed", "-n", "gpu-7"}), HasSubstr("--tell"));
  EXPECT_THAT(Refused({"--deadline", "0s"}), HasSubstr("longer than nothing"));
  EXPECT_THAT(Refused({"--deadline", "25h"}), HasSubstr("a day at most"));
  EXPECT_THAT(Refused({"--gpu", "GPU-a"}), HasSubstr("--part memory, bandwidths or peer"));
  EXPECT_THAT(Refused({"--gpu", "GPU-a", "--part", "all"}),
              HasSubstr("--part memory, bandwidths or"));
}

}  // namespace
}  // namespace pitcrew::node::qualification
