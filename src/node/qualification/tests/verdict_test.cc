// The verdict over tables of measurements. Which health counts as what: metrics-exporter.md section
// 11.
#include "node/qualification/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "node/qualification/health.h"
#include "node/qualification/model.h"
#include "nvml/abi_metrics.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::node::qualification {
namespace {

using namespace nvml::abi;
using ::testing::HasSubstr;

constexpr std::uint32_t kH100 = 0x233010de;
constexpr std::uint32_t kT4 = 0x1eb810de;
constexpr std::uint32_t kA30 = 0x20b710de;
constexpr std::uint32_t kUnknownModel = 0x123410de;

Health GoodHealth(unsigned links) {
  Health health;
  health.ecc_enabled = true;
  health.uncorrected = 0;
  health.uncorrected_ever = 0;
  health.sram_threshold_passed = 0;
  health.rows_remapped = 0;
  health.remapping_pending = false;
  health.remapping_failed = false;
  health.recovery_action = kRecoveryNone;
  for (unsigned link = 0; link < links; ++link) health.links.push_back({link, true, 0, 0, 0, 0});
  return health;
}

// A good H100: what public measurements of such boards show.
Measurement Good() {
  Measurement gpu;
  gpu.uuid = "GPU-1";
  gpu.pci_device_id = kH100;
  Exercise memory;
  memory.memory = MemoryTest{.asked = 64ULL << 30, .tested = 64ULL << 30, .patterns = 5};
  gpu.memory = memory;
  Exercise bandwidths;
  bandwidths.bandwidths = Bandwidths{53e9, 54e9, 2600e9};
  bandwidths.load = UnderLoad{1980, 1980, 0, 5, 16, 5, 16};
  gpu.bandwidths = bandwidths;
  gpu.before = gpu.after = GoodHealth(18);
  return gpu;
}

Check CheckOf(const Measurement& gpu, std::string_view name) {
  const auto report = Judge(gpu);
  const auto found = std::ranges::find(report.checks, name, &Check::name);
  if (found == report.checks.end()) {
    ADD_FAILURE() << "no check " << name;
    return {};
  }
  return *found;
}
Outcome OutcomeOf(const Measurement& gpu, std::string_view name) {
  return CheckOf(gpu, name).outcome;
}

TEST(Verdict, AGoodGpuPassesEverything) {
  const auto report = Judge(Good());
  EXPECT_TRUE(report.passed());
  EXPECT_EQ(report.model, "H100-SXM5-80GB");
  EXPECT_EQ(report.checks.size(), 10u);
  for (const auto& check : report.checks) {
    EXPECT_EQ(check.outcome, Outcome::kPassed) << check.name << ": " << check.text;
  }
  EXPECT_THAT(report.Failures(), ::testing::IsEmpty());
}

TEST(Verdict, CopiesToAnotherGpu) {
  auto gpu = Good();
  gpu.peer_index = 3;
  Exercise exercise;
  exercise.peer = PeerCopy{.bytes_per_second = 390e9, .direct = true, .wrong_words = 0};
  gpu.peer = exercise;
  EXPECT_EQ(OutcomeOf(gpu, "gpu-to-gpu"), Outcome::kPassed);
  EXPECT_THAT(CheckOf(gpu, "gpu-to-gpu").text, HasSubstr("to GPU 3: 390.0 GB/s, at least 270.0"));
  auto& copy = *gpu.peer->peer;
  copy.bytes_per_second = 52e9;  // what PCIe carries
  EXPECT_EQ(OutcomeOf(gpu, "gpu-to-gpu"), Outcome::kFailed);
  // Where a virtual machine has only some GPUs of a board, the driver may have no other way.
  copy.direct = false;
  EXPECT_EQ(OutcomeOf(gpu, "gpu-to-gpu"), Outcome::kNoted);
  copy = {.bytes_per_second = 390e9, .direct = true, .wrong_words = 2};
  EXPECT_EQ(OutcomeOf(gpu, "gpu-to-gpu"), Outcome::kFailed);
  EXPECT_THAT(CheckOf(gpu, "gpu-to-gpu").text, HasSubstr("2 words arrived at GPU 3 other"));
  // Boards that may have a bridge or none: told, not judged.
  copy = {.bytes_per_second = 20e9, .direct = true, .wrong_words = 0};
  gpu.pci_device_id = kA30;
  EXPECT_EQ(OutcomeOf(gpu, "gpu-to-gpu"), Outcome::kUnknown);
  gpu.peer = base::Fail(base::Error{base::Code::kTimeout, "GpuHangs", "not done"});
  EXPECT_EQ(OutcomeOf(gpu, "gpu-to-gpu"), Outcome::kFailed);
}

TEST(Verdict, MemoryThatReadsOtherThanWrittenFails) {
  auto gpu = Good();
  auto& test = *gpu.memory->memory;
  test.wrong_words = 3;
  test.first = WrongWord{4096, 0, 0x10};
  EXPECT_EQ(OutcomeOf(gpu, "memory"), Outcome::kFailed);
  EXPECT_THAT(CheckOf(gpu, "memory").text,
              HasSubstr("3 wrong words in 64.00 GiB; the first at byte 4096: written 0x00000000, "
                        "read 0x00000010"));
  EXPECT_FALSE(Judge(gpu).passed());
}

TEST(Verdict, LessMemoryThanAskedIsNotedAndNoneFails) {
  auto gpu = Good();
  gpu.memory->memory->tested = 32ULL << 30;
  EXPECT_EQ(OutcomeOf(gpu, "memory"), Outcome::kNoted);
  gpu.memory->memory->tested = 0;
  EXPECT_EQ(OutcomeOf(gpu, "memory"), Outcome::kFailed);
}

TEST(Verdict, AGpuThatCouldNotDoItsWorkFails) {
  auto gpu = Good();
  gpu.memory = base::Fail(base::Unavailable("ExerciseFailed", "cuCtxCreate: CUDA_ERROR_UNKNOWN"));
  gpu.bandwidths = base::Fail(base::Error{base::Code::kTimeout, "GpuHangs", "not done"});
  EXPECT_EQ(OutcomeOf(gpu, "memory"), Outcome::kFailed);
  EXPECT_EQ(OutcomeOf(gpu, "host-to-device"), Outcome::kFailed);
  EXPECT_EQ(OutcomeOf(gpu, "pcie"), Outcome::kUnknown);
  EXPECT_EQ(OutcomeOf(gpu, "clocks"), Outcome::kUnknown);
}

TEST(Verdict, BandwidthsAreJudgedByTheModel) {
  auto gpu = Good();
  auto& seen = *gpu.bandwidths->bandwidths;
  // 16 lanes of generation 5 carry 63 GB/s; 60 percent of that are 37.8.
  seen.to_device = 37e9;
  EXPECT_EQ(OutcomeOf(gpu, "host-to-device"), Outcome::kFailed);
  EXPECT_EQ(OutcomeOf(gpu, "device-to-host"), Outcome::kPassed);
  seen.to_device = 38e9;
  EXPECT_EQ(OutcomeOf(gpu, "host-to-device"), Outcome::kPassed);
  EXPECT_NEAR(CheckOf(gpu, "host-to-device").least.value_or(0), 37.8, 0.1);
  // 3350 GB/s of memory: 2010.
  seen.within_device = 2000e9;
  EXPECT_EQ(OutcomeOf(gpu, "device-memory"), Outcome::kFailed);
  seen.within_device = 2020e9;
  EXPECT_EQ(OutcomeOf(gpu, "device-memory"), Outcome::kPassed);
}

TEST(Verdict, AnOlderSlotIsNotedAndItsBandwidthExpected) {
  auto gpu = Good();
  gpu.bandwidths->load = UnderLoad{1980, 1980, 0, 4, 16, 4, 16};
  gpu.bandwidths->bandwidths->to_device = 25e9;  // of 31.5
  EXPECT_EQ(OutcomeOf(gpu, "pcie"), Outcome::kNoted);
  EXPECT_EQ(OutcomeOf(gpu, "host-to-device"), Outcome::kPassed);
}

TEST(Verdict, ASlowLinkFails) {
  auto gpu = Good();
  gpu.bandwidths->load = UnderLoad{1980, 1980, 0, 1, 16, 5, 16};  // came down
  EXPECT_EQ(OutcomeOf(gpu, "pcie"), Outcome::kFailed);
  gpu.bandwidths->load = UnderLoad{1980, 1980, 0, 5, 8, 5, 8};  // a slot with half of the lanes
  EXPECT_THAT(CheckOf(gpu, "pcie").text, HasSubstr("the model (H100-SXM5-80GB) has 16 lanes"));
  EXPECT_EQ(OutcomeOf(gpu, "pcie"), Outcome::kFailed);
  gpu.bandwidths->load->pcie_width = std::nullopt;
  EXPECT_EQ(OutcomeOf(gpu, "pcie"), Outcome::kUnknown);
}

TEST(Verdict, AnUnknownModelIsJudgedByAbsoluteRulesOnly) {
  auto gpu = Good();
  gpu.pci_device_id = kUnknownModel;
  gpu.bandwidths->bandwidths = Bandwidths{1e9, 1e9, 1e9};
  const auto report = Judge(gpu);
  EXPECT_EQ(report.model, "");
  EXPECT_TRUE(report.passed());
  EXPECT_EQ(OutcomeOf(gpu, "host-to-device"), Outcome::kUnknown);
  EXPECT_EQ(CheckOf(gpu, "device-memory").value, 1.0) << "measured and told";
  EXPECT_EQ(OutcomeOf(gpu, "pcie"), Outcome::kPassed);
  gpu.bandwidths->load->pcie_width = 8;
  EXPECT_EQ(OutcomeOf(gpu, "pcie"), Outcome::kFailed) << "an absolute rule";
}

TEST(Verdict, ClocksHeldDownByHeatOrSupplyFail) {
  struct Case {
    std::uint64_t reasons;
    unsigned clock;
    Outcome outcome;
  };
  const Case cases[] = {
      {0, 1980, Outcome::kPassed},
      {0, 980, Outcome::kFailed},  // less than half, for no reason that is told
      {kClocksSwPowerCap, 1400, Outcome::kNoted},
      {kClocksApplicationsSetting, 1400, Outcome::kPassed},
      {kClocksHwThermalSlowdown | kClocksHwSlowdown, 1980, Outcome::kFailed},
      {kClocksSwThermalSlowdown, 1900, Outcome::kFailed},
      {kClocksHwPowerBrakeSlowdown, 1980, Outcome::kFailed},
      {kClocksGpuIdle, 345, Outcome::kUnknown},
      {kClocksGpuIdle | kClocksHwThermalSlowdown, 345, Outcome::kFailed},
  };
  for (const auto& one : cases) {
    auto gpu = Good();
    gpu.bandwidths->load->clock_reasons = one.reasons;
    gpu.bandwidths->load->sm_clock_mhz = one.clock;
    EXPECT_EQ(OutcomeOf(gpu, "clocks"), one.outcome) << one.reasons << " " << one.clock;
  }
}

TEST(Verdict, EccErrors) {
  auto gpu = Good();
  gpu.after->uncorrected_ever = 2;
  EXPECT_EQ(OutcomeOf(gpu, "ecc"), Outcome::kNoted);
  gpu.after->uncorrected = 1;
  EXPECT_EQ(OutcomeOf(gpu, "ecc"), Outcome::kFailed);
  gpu.after = GoodHealth(18);
  gpu.after->sram_threshold_passed = 1;
  EXPECT_EQ(OutcomeOf(gpu, "ecc"), Outcome::kFailed);
  gpu.after = GoodHealth(18);
  gpu.after->ecc_enabled = false;
  EXPECT_EQ(OutcomeOf(gpu, "ecc"), Outcome::kNoted);
  gpu.after->ecc_enabled = std::nullopt;
  EXPECT_EQ(OutcomeOf(gpu, "ecc"), Outcome::kUnknown);
}

TEST(Verdict, RemappedRowsAndRetiredPages) {
  auto gpu = Good();
  gpu.after->rows_remapped = 2;
  EXPECT_EQ(OutcomeOf(gpu, "remapped-rows"), Outcome::kNoted);
  gpu.after->remapping_pending = true;
  EXPECT_EQ(OutcomeOf(gpu, "remapped-rows"), Outcome::kFailed);
  gpu.after = GoodHealth(18);
  gpu.after->remapping_failed = true;
  EXPECT_EQ(OutcomeOf(gpu, "remapped-rows"), Outcome::kFailed);
  // A T4 retires pages: 63 are too many.
  gpu.pci_device_id = kT4;
  gpu.after = GoodHealth(0);
  gpu.after->remapping_pending = gpu.after->remapping_failed = std::nullopt;
  gpu.after->rows_remapped = std::nullopt;
  EXPECT_EQ(OutcomeOf(gpu, "remapped-rows"), Outcome::kUnknown);
  gpu.after->pages_retired = 0;
  EXPECT_EQ(OutcomeOf(gpu, "remapped-rows"), Outcome::kPassed);
  gpu.after->pages_retired = 62;
  EXPECT_EQ(OutcomeOf(gpu, "remapped-rows"), Outcome::kNoted);
  gpu.after->pages_retired = 63;
  EXPECT_EQ(OutcomeOf(gpu, "remapped-rows"), Outcome::kFailed);
}

TEST(Verdict, TheDriverAsksForARecovery) {
  auto gpu = Good();
  gpu.after->recovery_action = kRecoveryGpuReset;
  EXPECT_EQ(OutcomeOf(gpu, "recovery"), Outcome::kFailed);
  EXPECT_THAT(CheckOf(gpu, "recovery").text, HasSubstr("reset the GPU"));
  gpu.after->recovery_action = std::nullopt;
  EXPECT_EQ(OutcomeOf(gpu, "recovery"), Outcome::kUnknown);
}

TEST(Verdict, NvLinks) {
  auto gpu = Good();
  gpu.after->links[3].up = false;
  EXPECT_EQ(OutcomeOf(gpu, "nvlink"), Outcome::kFailed);
  EXPECT_THAT(CheckOf(gpu, "nvlink").text,
              HasSubstr("17 links are up; the model (H100-SXM5-80GB) has 18; down: 3"));
  // Errors of before are known; those of the test say that the link is bad now.
  gpu.after = GoodHealth(18);
  gpu.before->links[5].replays = gpu.after->links[5].replays = 7;
  EXPECT_EQ(OutcomeOf(gpu, "nvlink"), Outcome::kNoted);
  gpu.after->links[5].replays = 8;
  EXPECT_EQ(OutcomeOf(gpu, "nvlink"), Outcome::kFailed);
  gpu.after = GoodHealth(18);
  gpu.before = GoodHealth(18);
  gpu.after->links[5].crc_errors = 1;
  EXPECT_EQ(OutcomeOf(gpu, "nvlink"), Outcome::kNoted);
}

// As an H200 in a virtual machine whose driver (580.159.04) was told to use none: it answers about
// no link.
TEST(Verdict, LinksThatTheDriverWasToldNotToUseAreNoFault) {
  auto gpu = Good();
  gpu.after->links.clear();
  EXPECT_EQ(OutcomeOf(gpu, "nvlink"), Outcome::kFailed) << "nobody has switched them off";
  gpu.links_switched_off = true;
  EXPECT_EQ(OutcomeOf(gpu, "nvlink"), Outcome::kNoted);
  EXPECT_THAT(CheckOf(gpu, "nvlink").text, HasSubstr("NVreg_NvLinkDisable=1"));
  gpu.after = GoodHealth(18);
  gpu.after->links[3].up = false;
  EXPECT_EQ(OutcomeOf(gpu, "nvlink"), Outcome::kFailed) << "the driver tells of links nevertheless";
  gpu.pci_device_id = kT4;
  gpu.after = GoodHealth(0);
  EXPECT_EQ(OutcomeOf(gpu, "nvlink"), Outcome::kPassed);
}

TEST(Verdict, WithoutLinksCopiesBetweenGpusAreNotJudgedByThem) {
  auto gpu = Good();
  gpu.peer_index = 1;
  gpu.peer = Exercise{.memory = {}, .bandwidths = {}, .load = {}, .peer = PeerCopy{50e9, true, 0}};
  EXPECT_EQ(OutcomeOf(gpu, "gpu-to-gpu"), Outcome::kFailed);
  gpu.links_switched_off = true;
  EXPECT_EQ(OutcomeOf(gpu, "gpu-to-gpu"), Outcome::kUnknown);
}

TEST(Health, WhetherLinksAreSwitchedOffStandsInTheDriversParameters) {
  const test_support::TemporaryFolder proc;
  EXPECT_FALSE(AreNvLinksSwitchedOff(proc.path())) << "no driver";
  proc.Write("driver/nvidia/params", "ImexChannelCount: 2048\nNvLinkDisable: 1\nRmMsg: \"\"\n");
  EXPECT_TRUE(AreNvLinksSwitchedOff(proc.path()));
  proc.Write("driver/nvidia/params", "NvLinkDisable: 0\nRmNvlinkBandwidthLinkCount: 1\n");
  EXPECT_FALSE(AreNvLinksSwitchedOff(proc.path()));
}

TEST(Verdict, LinksThatNeedABridgeMayAllBeDown) {
  auto gpu = Good();
  gpu.pci_device_id = kA30;
  gpu.after = GoodHealth(4);
  for (auto& link : gpu.after->links) link.up = false;
  EXPECT_EQ(OutcomeOf(gpu, "nvlink"), Outcome::kUnknown);
  gpu.after->links[0].up = true;
  EXPECT_EQ(OutcomeOf(gpu, "nvlink"), Outcome::kFailed) << "a bridge joins all four";
  gpu.pci_device_id = kT4;
  gpu.after = GoodHealth(0);
  EXPECT_EQ(OutcomeOf(gpu, "nvlink"), Outcome::kPassed);
}

TEST(Verdict, ADividedGpuIsNotExercised) {
  auto gpu = Good();
  gpu.divided = true;
  gpu.memory = gpu.bandwidths = base::Fail(base::Unavailable("DividedByMig", ""));
  const auto report = Judge(gpu);
  EXPECT_TRUE(report.passed());
  EXPECT_EQ(OutcomeOf(gpu, "memory"), Outcome::kUnknown);
  EXPECT_THAT(CheckOf(gpu, "memory").text, HasSubstr("divided by MIG"));
}

TEST(Verdict, AGpuThatCannotBeReadFails) {
  Measurement gpu;
  gpu.unreadable = base::Unavailable("GpuIsLost", "the GPU is lost");
  EXPECT_FALSE(Judge(gpu).passed());
  EXPECT_THAT(Judge(gpu).Failures(), ::testing::ElementsAre("readable: the GPU is lost"));
  gpu = Good();
  gpu.after = base::Fail(base::Unavailable("GpuIsLost", "the GPU is lost"));
  EXPECT_THAT(Judge(gpu).Failures(), ::testing::ElementsAre("health: the GPU is lost"));
}

TEST(Models, EachDeviceOnceAndWithinReason) {
  std::set<std::uint16_t> devices;
  std::set<std::string_view> names;
  for (const auto& model : Models()) {
    EXPECT_TRUE(devices.insert(model.pci_device).second) << model.name;
    EXPECT_TRUE(names.insert(model.name).second) << model.name;
    EXPECT_EQ(model.links == Links::kNone, model.nvlinks == 0) << model.name;
    EXPECT_GT(model.memory_bandwidth, 0u) << model.name;
    if (model.pcie_generation != 0) {
      EXPECT_GT(PcieBandwidth(model.pcie_generation, model.pcie_width), 10) << model.name;
    }
  }
  ASSERT_NE(FindModel(kH100), nullptr);
  EXPECT_EQ(FindModel(kH100)->name, "H100-SXM5-80GB");
  EXPECT_EQ(FindModel(0x23308086), nullptr) << "another vendor's";
  // 128 GT/s of 16 lanes less the encoding of generation 3: PCI-SIG's 15.75 GB/s.
  EXPECT_NEAR(PcieBandwidth(3, 16), 15.75, 0.02);
  EXPECT_EQ(PcieBandwidth(9, 16), 0);
}

}  // namespace
}  // namespace pitcrew::node::qualification
