// From NVML's answers to series.
#include "node/metrics_exporter/round.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "node/metrics_exporter/fields.h"
#include "node/metrics_exporter/text.h"
#include "nvml/abi_metrics.h"

namespace pitcrew::node::metrics_exporter {
namespace {

using namespace std::chrono_literals;
using nvml::Answer;
using nvml::Quantity;
using nvml::Question;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

gpu::Device Gpu(unsigned index) {
  gpu::Device device;
  device.index = index;
  device.uuid = fmt::format("GPU-{}", index);
  device.name = "NVIDIA H100";
  return device;
}

gpu::MigDevice Instance(unsigned number, unsigned compute = 0) {
  gpu::MigDevice mig;
  mig.uuid = fmt::format("MIG-{}-{}", number, compute);
  mig.gpu_instance_id = number;
  mig.compute_instance_id = compute;
  mig.profile = *gpu::MigProfile::Parse("1g.10gb");
  return mig;
}

// Rounds over a node whose answers the test gives.
class RoundTest : public ::testing::Test {
 protected:
  void Ask(std::string_view counters) {
    const auto file = ParseCounters(counters, "test");
    ASSERT_TRUE(file) << file.error().message;
    counters_ = file->counters;
  }

  // Answers every question alike for each GPU and instance.
  void Answer(const Question& question, nvml::Answer answer) { answers_[question] = answer; }

  Round Next(std::chrono::milliseconds later = 1s) {
    now_ += later;
    const auto plan = MakePlan(counters_, inventory_, links_, options_);
    std::vector<base::Result<nvml::GpuAnswers>> all;
    for (const auto& gpu : plan.questions) {
      if (lost_ == gpu.uuid) {
        all.emplace_back(base::Fail(base::Unavailable("GpuIsLost", "gone")));
        continue;
      }
      nvml::GpuAnswers answers{now_, {}};
      for (const auto& part : gpu.parts) {
        nvml::PartAnswers of_part;
        for (const auto& question : part.questions) {
          const auto found = answers_.find(question);
          of_part.answers.push_back(found == answers_.end() ? nvml::Silence::kNotSupported
                                                            : found->second);
        }
        answers.parts.push_back(std::move(of_part));
      }
      all.emplace_back(std::move(answers));
    }
    return MakeRound({.counters = counters_,
                      .inventory = inventory_,
                      .plan = plan,
                      .answers = all,
                      .now = now_,
                      .windows = {}},
                     history_);
  }
  std::string NextText(std::chrono::milliseconds later = 1s) { return ToText(Next(later), {}, {}); }

  gpu::Inventory inventory_;
  std::vector<Counter> counters_;
  LinksUp links_;
  PlanOptions options_;
  History history_;
  std::map<Question, nvml::Answer> answers_;
  TimePoint now_ = TimePoint() + 1h;
  std::string lost_;
};

constexpr Question kSent{Quantity::kField, 138, kAllLinks};
constexpr Question kReceived{Quantity::kField, 139, kAllLinks};

TEST_F(RoundTest, NvLinkBandwidthIsARate) {
  RecordProperty("holds", "metrics-exporter.md #52");
  inventory_.devices = {Gpu(0)};
  Ask("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL, counter, x\n");
  Answer(kSent, std::int64_t{0});
  Answer(kReceived, std::int64_t{0});
  EXPECT_THAT(NextText(), HasSubstr("} 0\n"));
  Answer(kSent, std::int64_t{1'500'000});
  Answer(kReceived, std::int64_t{500'000});
  EXPECT_THAT(NextText(1s), HasSubstr("} 2000\n"));
  EXPECT_THAT(NextText(2s), HasSubstr("} 0\n"));
  // A driver that was loaded anew counts from the beginning.
  Answer(kSent, std::int64_t{10});
  EXPECT_THAT(NextText(1s), HasSubstr("} 0\n"));
  Answer(kReceived, nvml::Silence::kNotSupported);
  EXPECT_THAT(NextText(), HasSubstr("has no value: not supported"));
}

// metrics-exporter.md section 3: of what is not reserved.
TEST_F(RoundTest, TheUsedShareNeedsAllThreeReadings) {
  inventory_.devices = {Gpu(0)};
  Ask("DCGM_FI_DEV_FB_USED_PERCENT, gauge, x\n");
  const auto readings = [&](nvml::Answer total, nvml::Answer used, nvml::Answer reserved) {
    Answer({Quantity::kMemoryTotal}, std::move(total));
    Answer({Quantity::kMemoryUsed}, std::move(used));
    Answer({Quantity::kMemoryReserved}, std::move(reserved));
    return NextText();
  };
  const std::int64_t gibibyte = 1 << 30;
  const nvml::Answer none = nvml::Silence::kNotSupported;
  EXPECT_THAT(readings(10 * gibibyte, 2 * gibibyte, 2 * gibibyte), HasSubstr("} 0.25"));
  for (const auto& text :
       {readings(none, gibibyte, gibibyte), readings(10 * gibibyte, none, gibibyte),
        readings(10 * gibibyte, gibibyte, none), readings(gibibyte, gibibyte, gibibyte)}) {
    EXPECT_THAT(text, HasSubstr("# DCGM_FI_DEV_FB_USED_PERCENT has no value: "));
  }
}

TEST_F(RoundTest, TheLastXidStaysAndNoneIsNoSeries) {
  RecordProperty("holds", "metrics-exporter.md #20, #53");
  inventory_.devices = {Gpu(0), Gpu(1)};
  Ask("DCGM_FI_DEV_XID_ERRORS, gauge, x\n");
  EXPECT_THAT(NextText(), HasSubstr("# DCGM_FI_DEV_XID_ERRORS has no value: there was no XID"));
  history_.xids.Add(now_, "GPU-1", std::nullopt, 48);
  history_.xids.Add(now_, "GPU-1", std::nullopt, 79);
  const auto text = NextText(1h);
  EXPECT_THAT(text, HasSubstr("err_code=\"79\",err_msg=\"GPU has fallen off the bus\"} 79\n"));
  EXPECT_THAT(text, Not(HasSubstr("UUID=\"GPU-0\"")));
  history_.xids.Add(now_, "GPU-0", std::nullopt, 9999);
  EXPECT_THAT(NextText(), HasSubstr("err_code=\"9999\",err_msg=\"Unknown Error\"} 9999\n"));
}

TEST_F(RoundTest, XidsAreCountedInTheirWindow) {
  RecordProperty("holds", "metrics-exporter.md #44");
  inventory_.devices = {Gpu(0), Gpu(1)};
  Ask("DCGM_EXP_XID_ERRORS_COUNT, gauge, x\n");
  for (int i = 0; i < 3; ++i) history_.xids.Add(now_ + i * 1s, "GPU-0", std::nullopt, 42);
  history_.xids.Add(now_ - 10min, "GPU-1", std::nullopt, 42);
  const auto text = NextText(4s);
  EXPECT_THAT(text,
              HasSubstr("UUID=\"GPU-0\",pci_bus_id=\"00000000:00:00.0\",device=\"nvidia0\","
                        "modelName=\"NVIDIA H100\",window_size_in_ms=\"300000\",xid=\"42\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("modelName=\"NVIDIA H100\",window_size_in_ms=\"300000\"} 0\n"));
}

TEST_F(RoundTest, XidsOfAnInstanceAreItsOwn) {
  auto mig = Gpu(0);
  mig.mig_devices = {Instance(7), Instance(8)};
  inventory_.devices = {mig};
  Ask("DCGM_FI_DEV_XID_ERRORS, gauge, x\n");
  history_.xids.Add(now_, "GPU-0", 7, 31);
  auto text = NextText();
  EXPECT_THAT(text, HasSubstr("GPU_I_ID=\"7\",err_code=\"31\""));
  EXPECT_THAT(text, Not(HasSubstr("GPU_I_ID=\"8\"")));
  // One of the whole GPU is everybody's.
  history_.xids.Add(now_, "GPU-0", std::nullopt, 79);
  text = NextText();
  EXPECT_THAT(text, HasSubstr("GPU_I_ID=\"7\",err_code=\"79\""));
  EXPECT_THAT(text, HasSubstr("GPU_I_ID=\"8\",err_code=\"79\""));
}

TEST_F(RoundTest, ClockEventsCountTheRoundsThatSawThem) {
  RecordProperty("holds", "metrics-exporter.md #45");
  inventory_.devices = {Gpu(0)};
  Ask("DCGM_EXP_CLOCK_EVENTS_COUNT, gauge, x\n");
  Answer({Quantity::kClockReasons}, std::int64_t{0x44});
  auto text = NextText();
  EXPECT_THAT(text, HasSubstr("clock_event=\"power_cap\",window_size_in_ms=\"300000\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("clock_event=\"hw_thermal\",window_size_in_ms=\"300000\"} 1\n"));
  Answer({Quantity::kClockReasons}, std::int64_t{0});
  text = NextText(6min);
  EXPECT_THAT(text, HasSubstr("modelName=\"NVIDIA H100\",window_size_in_ms=\"300000\"} 0\n"));
}

TEST_F(RoundTest, AHealthyGpuPassesElevenWatches) {
  RecordProperty("holds", "metrics-exporter.md #46");
  inventory_.devices = {Gpu(0), Gpu(1)};
  Ask("DCGM_EXP_GPU_HEALTH_STATUS, gauge, x\n");
  auto family = Next().families.front();
  ASSERT_THAT(family.samples, SizeIs(22));
  for (const auto& sample : family.samples) {
    EXPECT_EQ(sample.value, "0");
    EXPECT_THAT(sample.attributes,
                Contains(std::pair<std::string, std::string>("health_error_code", "DCGM_FR_OK")));
  }
  history_.xids.Add(now_, "GPU-1", std::nullopt, 79);
  history_.xids.Add(now_, "GPU-unknown", std::nullopt, 79);
  const auto text = NextText();
  EXPECT_THAT(text,
              HasSubstr("health_error_code=\"DCGM_FR_XID_ERROR\",health_watch=\"ALL\"} 20\n"));
  EXPECT_THAT(text, Not(HasSubstr("} 10\n")));
  family = Next().families.front();
  EXPECT_EQ(std::ranges::count(family.samples, "20", &Sample::value), 1);
}

TEST_F(RoundTest, PagesThatAreRetiredTooFastAreAFailure) {
  inventory_.devices = {Gpu(0)};
  Ask("DCGM_EXP_GPU_HEALTH_STATUS, gauge, x\n");
  const Question pages{Quantity::kField, nvml::abi::field::kRetiredDbe};
  const auto fails = [&](std::int64_t count, std::chrono::milliseconds later) {
    Answer(pages, count);
    return NextText(later).contains("DCGM_FR_RETIRED_PAGES_DBE_LIMIT");
  };
  constexpr std::chrono::hours kDay{24};
  EXPECT_FALSE(fails(14, 1s));
  EXPECT_FALSE(fails(16, 6 * kDay)) << "what was a week ago is not known";
  EXPECT_TRUE(fails(16, kDay)) << "two more than a week ago";
  EXPECT_FALSE(fails(17, 7 * kDay)) << "one more";
  EXPECT_TRUE(fails(19, kDay));
  EXPECT_FALSE(fails(19, 8 * kDay));
}

TEST_F(RoundTest, EveryPairOfGpusHasALinkStatus) {
  RecordProperty("holds", "metrics-exporter.md #47");
  inventory_.devices = {Gpu(0), Gpu(1), Gpu(2)};
  Ask("DCGM_EXP_P2P_STATUS, gauge, x\n");
  const char* texts[] = {"OK",
                         "ChipsetNotSupported",
                         "GPUNotSupported",
                         "TopologyNotSupported",
                         "DisabledByRegKey",
                         "NotSupported",
                         "Unknown"};
  for (std::int64_t state = 0; state < 7; ++state) {
    for (std::uint16_t peer = 0; peer < 3; ++peer) Answer({Quantity::kPeerLinkStatus, peer}, state);
    const auto round = Next();
    EXPECT_THAT(round.families.front().samples, SizeIs(6));
    EXPECT_THAT(
        ToText(round, {}, {}),
        HasSubstr(fmt::format("link_status=\"{}\",peer_gpu=\"1\"}} {}\n", texts[state], state)));
  }
}

TEST_F(RoundTest, InstancesStandForTheirGpu) {
  RecordProperty("holds", "metrics-exporter.md #29");
  auto mig = Gpu(0);
  mig.mig_devices = {Instance(7), Instance(8), Instance(8, 1)};
  inventory_.devices = {mig, Gpu(1)};
  Ask("DCGM_FI_DEV_FB_USED, gauge, x\nDCGM_FI_DEV_GPU_TEMP, gauge, x\n"
      "DCGM_FI_PROF_PCIE_TX_BYTES, gauge, x\nDCGM_FI_PROF_DRAM_ACTIVE, gauge, x\n");
  Answer({Quantity::kMemoryUsed}, std::int64_t{1 << 20});
  Answer({Quantity::kTemperature}, std::int64_t{40});
  Answer({Quantity::kGpm, 20}, 1.0);
  Answer({Quantity::kGpm, 10}, 50.0);
  const auto round = Next();
  ASSERT_THAT(round.families, SizeIs(4));
  EXPECT_THAT(round.families[0].samples, SizeIs(3)) << "temperature, also of the parent";
  EXPECT_THAT(round.families[1].samples, SizeIs(3)) << "memory";
  EXPECT_THAT(round.families[2].samples, SizeIs(3)) << "memory bandwidth";
  EXPECT_THAT(round.families[3].samples, SizeIs(1)) << "PCIe belongs to the whole GPU";
  options_.gpus = *ParseDeviceSelection("g", "devices");
  EXPECT_THAT(Next().families[0].samples, SizeIs(2));
  options_.gpus = *ParseDeviceSelection("i:1", "devices");
  EXPECT_THAT(NextText(), HasSubstr("GPU_I_ID=\"8\""));
  EXPECT_THAT(NextText(), Not(HasSubstr("GPU_I_ID=\"7\"")));
}

TEST_F(RoundTest, LabelsAreOnAllSeriesWhereverTheyStandInTheFile) {
  RecordProperty("holds", "metrics-exporter.md #19");
  inventory_.driver_version = "580.95.05";
  inventory_.devices = {Gpu(0)};
  Ask("DCGM_FI_DEV_GPU_TEMP, gauge, x\nDCGM_FI_DRIVER_VERSION, label, x\n");
  Answer({Quantity::kTemperature}, std::int64_t{40});
  const auto text = NextText();
  EXPECT_THAT(text,
              HasSubstr("modelName=\"NVIDIA H100\",DCGM_FI_DRIVER_VERSION=\"580.95.05\"} 40"));
  EXPECT_THAT(text, Not(HasSubstr("# TYPE DCGM_FI_DRIVER_VERSION")));
}

TEST_F(RoundTest, WhatTheGpusLackIsSaidAndNotInvented) {
  RecordProperty("holds", "metrics-exporter.md #9, #54");
  inventory_.devices = {Gpu(0)};
  Ask("DCGM_FI_DEV_GPU_TEMP, gauge, x\nDCGM_FI_DEV_PCIE_TX_THROUGHPUT, gauge, x\n"
      "DCGM_FI_PROF_GR_ENGINE_ACTIVE, gauge, x\nDCGM_FI_DEV_CPU_UTIL_TOTAL, gauge, x\n");
  Answer({Quantity::kTemperature}, std::int64_t{40});
  const auto text = NextText();
  EXPECT_THAT(text, HasSubstr("} 40\n"));
  EXPECT_THAT(text, HasSubstr("# DCGM_FI_DEV_PCIE_TX_THROUGHPUT has no value: "));
  EXPECT_THAT(text, HasSubstr("# DCGM_FI_PROF_GR_ENGINE_ACTIVE has no value: not supported"));
  EXPECT_THAT(text, HasSubstr("# DCGM_FI_DEV_CPU_UTIL_TOTAL has no value: of the processor"));
  EXPECT_THAT(text, Not(HasSubstr("# TYPE DCGM_FI_PROF")));
}

TEST_F(RoundTest, ALostGpuCostsOnlyItsOwnSeries) {
  inventory_.devices = {Gpu(0), Gpu(1)};
  Ask("DCGM_FI_DEV_GPU_TEMP, gauge, x\n");
  Answer({Quantity::kTemperature}, std::int64_t{40});
  EXPECT_THAT(Next().families[0].samples, SizeIs(2));
  lost_ = "GPU-1";
  const auto round = Next();
  EXPECT_THAT(round.families[0].samples, SizeIs(1));
  ASSERT_THAT(round.gpus, SizeIs(2));
  EXPECT_FALSE(round.gpus[0].fault);
  EXPECT_EQ(round.gpus[1].fault->reason, "GpuIsLost");
}

TEST_F(RoundTest, GpusThatCannotBeAskedHaveNoPartInIt) {
  inventory_.devices = {Gpu(0), Gpu(1), Gpu(2)};
  inventory_.devices[0].fault = base::Unavailable("GpuIsLost", "gone");
  inventory_.devices[1].uuid = "";
  Ask("DCGM_FI_DEV_GPU_TEMP, gauge, x\n");
  Answer({Quantity::kTemperature}, std::int64_t{40});
  const auto text = NextText();
  EXPECT_THAT(text, HasSubstr("{gpu=\"2\","));
  EXPECT_THAT(text, Not(HasSubstr("{gpu=\"0\",")));
  EXPECT_THAT(text, Not(HasSubstr("{gpu=\"1\",")));
}

TEST_F(RoundTest, LinksAreEntitiesWithTheirHardwareNumber) {
  inventory_.devices = {Gpu(0)};
  links_ = {{"GPU-0", {2, 17, 18}}};
  Ask("DCGM_FI_DEV_NVLINK_REPLAY_ERROR_PER_LINK_TOTAL, counter, x\n"
      "DCGM_FI_PROF_NVLINK_TX_BYTES_PER_LINK, gauge, x\n");
  for (const std::uint32_t link : {2, 17, 18}) {
    Answer({Quantity::kNvLinkErrors, 0, link}, std::int64_t{link * 10});
  }
  Answer({Quantity::kGpm, 97}, 1.0);   // link 17, sent
  Answer({Quantity::kGpm, 213}, 2.0);  // link 18, sent
  const auto text = NextText();
  EXPECT_THAT(text, HasSubstr("{nvlink=\"2\",gpu=\"0\",gpu_uuid=\"GPU-0\","));
  EXPECT_THAT(text, HasSubstr("} 170\n"));
  EXPECT_THAT(text, HasSubstr("} 1048576\n"));
  EXPECT_THAT(text, HasSubstr("} 2097152\n"));
}

TEST(Plan, IdsThatNoDeviceHasAreRefused) {
  gpu::Inventory inventory;
  inventory.devices = {Gpu(0), Gpu(1)};
  EXPECT_TRUE(CheckSelection(*ParseDeviceSelection("g:0-1", "devices"), inventory));
  EXPECT_EQ(CheckSelection(*ParseDeviceSelection("g:2", "devices"), inventory).error().message,
            "there is no GPU 2 on this node: it has 2, counted from 0");
  EXPECT_FALSE(CheckSelection(*ParseDeviceSelection("i:0", "devices"), inventory));
}

}  // namespace
}  // namespace pitcrew::node::metrics_exporter
