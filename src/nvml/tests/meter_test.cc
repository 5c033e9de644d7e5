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
    fs::copy_file(fs::path(PITCREW_BINARY_DIR) / library, root_ / "usr/lib64/libnvidia-ml.so.1");
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
