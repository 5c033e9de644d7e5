// Readings in bulk, on the simulated driver.
#include "nvml/meter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "nvml/abi_metrics.h"
#include "nvml/guarded.h"
#include "nvml/nvml.h"
#include "simulation/state/incidents.h"
#include "simulation/testing/test_node.h"
#include "tests/support/folders.h"

namespace pitcrew::nvml {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::SizeIs;
using ::testing::VariantWith;

class MeterTest : public ::testing::Test {
 protected:
  void Start(const std::string& description, const char* library = "lib/libnvidia-ml.so.1") {
    fs::create_directories(root_ / "usr/lib64");
    fs::copy_file(test_support::BuildFolder() / library, root_ / "usr/lib64/libnvidia-ml.so.1");
    node_ = std::make_unique<simulation::TestNode>(description);
    node_->Use();
    auto opened = OpenGuarded({root_}, {.limit = std::chrono::seconds(5)});
    ASSERT_TRUE(opened) << opened.error().ToString();
    library_ = *std::move(opened);
    meter_ = library_->MakeMeter();
    inventory_ = library_->ReadInventory().value();
  }
  ~MeterTest() override { fs::remove_all(root_); }

  // The answers of one part of one GPU.
  PartAnswers Ask(std::size_t gpu, Part part) {
    auto answers = meter_->Read({{inventory_.devices.at(gpu).uuid, {std::move(part)}}});
    EXPECT_TRUE(answers.front()) << answers.front().error().ToString();
    return answers.front() ? answers.front()->parts.front() : PartAnswers();
  }
  std::vector<Answer> Ask(std::size_t gpu, std::vector<Question> questions) {
    Part part;
    part.questions = std::move(questions);
    return Ask(gpu, std::move(part)).answers;
  }

  fs::path root_ = simulation::MakeTemporaryFolder();
  std::unique_ptr<simulation::TestNode> node_;
  std::shared_ptr<Library> library_;
  std::shared_ptr<Meter> meter_;
  gpu::Inventory inventory_;
};

TEST_F(MeterTest, AnswersStandInTheOrderOfTheQuestions) {
  Start("gpus: [{profile: H100-80}, {profile: T4}]");
  const std::vector<Question> questions = {{Quantity::kMemoryTotal},
                                           {Quantity::kField, abi::field::kRemappedPending},
                                           {Quantity::kVbios},
                                           {Quantity::kClock, abi::kClockMemory},
                                           {Quantity::kVgpuLicensed}};
  constexpr std::int64_t kMebibyte = 1048576;
  EXPECT_THAT(
      Ask(0, questions),
      ElementsAre(VariantWith<std::int64_t>(81559 * kMebibyte), VariantWith<std::int64_t>(0),
                  VariantWith<std::string>(::testing::_),
                  VariantWith<std::int64_t>(::testing::Gt(0)), VariantWith<std::int64_t>(0)));
  const auto old = Ask(1, questions);
  EXPECT_EQ(old[1], Answer(Silence::kNotSupported)) << "a T4 retires pages";
}

TEST_F(MeterTest, AnInstanceHasItsOwnMemory) {
  Start("gpus: [{profile: A100-40, mig: {enabled: true, devices: {1g.5gb: 1, 3g.20gb: 1}}}]");
  std::vector<std::int64_t> totals;
  for (const auto& mig : inventory_.devices[0].mig_devices) {
    Part part;
    part.gpu_instance = mig.gpu_instance_id;
    part.mig_uuid = mig.uuid;
    part.questions = {{Quantity::kMemoryTotal}};
    totals.push_back(std::get<std::int64_t>(Ask(0, part).answers.front()) >> 20);
  }
  EXPECT_THAT(totals, ::testing::UnorderedElementsAre(4864, 19968));
  Part gone;
  gone.gpu_instance = 13;
  gone.mig_uuid = "MIG-gone";
  gone.questions = {{Quantity::kMemoryTotal}};
  EXPECT_EQ(Ask(0, gone).answers.front(), Answer(Silence::kNotFound));
}

TEST_F(MeterTest, ProfilingIsOfTheTimeBetweenTwoReadings) {
  Start("gpus: [{profile: H100-80, load: 80}, {profile: A100-40}]");
  const std::vector<Question> questions = {{Quantity::kGpm, abi::gpm::kGraphicsUtil},
                                           {Quantity::kGpm, abi::gpm::kMetricMax - 1}};
  EXPECT_THAT(Ask(0, questions), ElementsAre(Answer(Silence::kNotYet), Answer(Silence::kNotYet)));
  EXPECT_THAT(Ask(0, questions), ElementsAre(VariantWith<double>(::testing::DoubleNear(80, 1)),
                                             Answer(Silence::kNotSupported)));
  EXPECT_EQ(Ask(1, questions).front(), Answer(Silence::kNotSupported)) << "Ampere has no GPM";
}

TEST_F(MeterTest, AGpuKnowsItsPlace) {
  Start(
      "cpus: 80\n"
      "gpus: [{profile: GB200, fabric: {cluster: 00000000-0000-0000-0000-0000000000aa, clique: "
      "0}},\n"
      "       {profile: T4, numa: 1}]");
  const std::vector<Question> questions = {
      {Quantity::kCpuAffinity, 0},     {Quantity::kCpuAffinity, 1},
      {Quantity::kCpuAffinity, 4},     {Quantity::kMemoryAffinity, 0},
      {Quantity::kMemoryAffinity, 3},  {Quantity::kVirtualizationMode},
      {Quantity::kUnrepairableMemory}, {Quantity::kAutoBoost}};
  EXPECT_THAT(Ask(0, questions),
              ElementsAre(Answer((std::int64_t{1} << 40) - 1), Answer(std::int64_t{0}),
                          Answer(Silence::kNotSupported), Answer(std::int64_t{1}),
                          Answer(std::int64_t{0}), Answer(std::int64_t{0}), Answer(std::int64_t{0}),
                          Answer(Silence::kNotSupported)));
  const auto second = Ask(1, questions);
  EXPECT_EQ(second[0], Answer(static_cast<std::int64_t>(~std::uint64_t{0} << 40)))
      << "bit 63 is the sign, as upstream writes it";
  EXPECT_EQ(second[1], Answer(std::int64_t{0xffff}));
  EXPECT_EQ(second[3], Answer(std::int64_t{2}));
  EXPECT_EQ(second[6], Answer(Silence::kNotSupported)) << "Turing does not tell";
}

TEST_F(MeterTest, FabricAndRackAreRead) {
  Start(
      "gpus: [{profile: GB200, fabric: {cluster: 00000000-0000-0000-0000-0000000000aa, clique: "
      "0}},\n"
      "       {profile: H100-80}, {profile: T4}]");
  const std::vector<Question> questions = {
      {Quantity::kFabricHealth},   {Quantity::kFabricHealthSummary}, {Quantity::kPlatformGuid},
      {Quantity::kPlatformSerial}, {Quantity::kPlatformSlot},        {Quantity::kPlatformTray},
      {Quantity::kPlatformHost},   {Quantity::kPlatformPeerType},    {Quantity::kPlatformModule}};
  EXPECT_THAT(Ask(0, questions),
              ElementsAre(Answer(std::int64_t{0x1aa}), Answer(std::int64_t{1}),
                          VariantWith<std::string>(::testing::MatchesRegex("0x[0-9a-f]{16}")),
                          VariantWith<std::string>(::testing::MatchesRegex("[0-9]{13}")),
                          Answer(std::int64_t{1}), Answer(std::int64_t{0}), Answer(std::int64_t{1}),
                          Answer(std::int64_t{1}), Answer(std::int64_t{1})));
  ASSERT_TRUE(node_->file().Update([](simulation::NodeState& state) {
    state.gpus[0].fabric_health = abi::fabric_health::kLimitedCapacity;
    return true;
  }));
  EXPECT_EQ(Ask(0, questions)[0], Answer(std::int64_t{0x1a9}));
  EXPECT_EQ(Ask(0, questions)[1], Answer(std::int64_t{3}));
  const auto hopper = Ask(1, questions);
  EXPECT_EQ(hopper[1], Answer(std::int64_t{1}));
  EXPECT_EQ(hopper[2], Answer(Silence::kNotSupported)) << "not in a rack";
  EXPECT_THAT(Ask(2, questions), ::testing::Each(Answer(Silence::kNotSupported)));
}

TEST_F(MeterTest, PortsOfLinksAreCountedFromOne) {
  Start("gpus: [{profile: B200}, {profile: H100-80}]");
  ASSERT_TRUE(node_->file().Update([](simulation::NodeState& state) {
    simulation::AddLinkErrors(state, 0, 3, 1, 7);
    return true;
  }));
  namespace ids = abi::port_counter;
  const std::vector<Question> questions = {
      {Quantity::kPortCounter, ids::kTotalSuccessfulRecoveries, 3},
      {Quantity::kPortCounter, ids::kTotalSuccessfulRecoveries, 4},
      {Quantity::kTemperature},
      {Quantity::kPortCounter, ids::kPortXmitWait, 0},
      {Quantity::kPortCounter, ids::kSyncEvents, 3},
      {Quantity::kPortCounter, ids::kLinkDownEvents, 40}};
  EXPECT_THAT(Ask(0, questions),
              ElementsAre(Answer(std::int64_t{7}), Answer(std::int64_t{0}),
                          VariantWith<std::int64_t>(::testing::Gt(0)), Answer(std::int64_t{0}),
                          Answer(Silence::kNotSupported), Answer(Silence::kFailed)));
  EXPECT_EQ(Ask(1, questions)[0], Answer(Silence::kNotSupported)) << "Hopper has no such registers";
}

TEST_F(MeterTest, ADriverThatHangsIsOneErrorForAll) {
  Start("gpus: [{profile: H100-80, count: 2}]");
  const auto hang = [&](std::uint32_t hangs) {
    ASSERT_TRUE(node_->file().Update([&](simulation::NodeState& state) {
      state.driver_hangs = hangs;
      return true;
    }));
  };
  hang(1);
  EXPECT_EQ(library_->ReadDriver().error().reason, "NvmlHangs");
  EXPECT_EQ(library_->ReadInventory().error().reason, "NvmlHangs") << "without another wait";
  hang(0);
  while (HasHangingCalls()) std::this_thread::yield();
  EXPECT_TRUE(library_->ReadInventory());
}

TEST_F(MeterTest, AGpuThatHangsOrIsLostCostsTheOthersNothing) {
  Start("gpus: [{profile: H100-80, count: 3}]");
  const auto change = [&](auto what) {
    ASSERT_TRUE(node_->file().Update([&](simulation::NodeState& state) {
      what(state);
      return true;
    }));
  };
  change([](auto& state) { state.gpus[1].slow_milliseconds = simulation::kHangs; });
  change([](auto& state) { state.gpus[2].lost = 1; });
  Part part;
  part.questions = {{Quantity::kTemperature}};
  std::vector<GpuQuestions> all;
  for (const auto& device : inventory_.devices) all.push_back({device.uuid, {part}});
  const auto answers = meter_->Read(all);
  ASSERT_THAT(answers, SizeIs(3));
  ASSERT_TRUE(answers[0]);
  EXPECT_THAT(answers[0]->parts.front().answers,
              ElementsAre(VariantWith<std::int64_t>(::testing::Gt(0))));
  EXPECT_EQ(answers[1].error().reason, "NvmlHangs");
  EXPECT_EQ(answers[2].error().reason, "GpuIsLost");
  change([](auto& state) { state.gpus[1].slow_milliseconds = 0; });
  while (HasHangingCalls()) std::this_thread::yield();
  EXPECT_TRUE(meter_->Read(all)[1]);
}

}  // namespace
}  // namespace pitcrew::nvml
