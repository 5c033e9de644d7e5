#include "simulation/state/mig.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "simulation/state/incidents.h"
#include "simulation/testing/test_node.h"

namespace pitcrew::simulation {
namespace {

using namespace nvml::abi;

constexpr std::uint32_t kOneSlice = 19;  // ids of the 7-slice GPUs' profiles
constexpr std::uint32_t kOneSliceMedia = 20;
constexpr std::uint32_t kOneSliceDouble = 15;
constexpr std::uint32_t kTwoSlices = 14;
constexpr std::uint32_t kThreeSlices = 9;
constexpr std::uint32_t kFourSlices = 5;
constexpr std::uint32_t kWhole = 0;

class Mig : public ::testing::Test {
 protected:
  explicit Mig(const char* description = "gpus: [{profile: A100-40, mig: {enabled: true}}]") {
    TestNode made(description);
    *node_ = *made.file().Snapshot();
  }
  GpuState& gpu() { return node_->gpus[0]; }
  Return Create(std::uint32_t profile, std::optional<gpu::MigPlacement> placement = std::nullopt) {
    return CreateGpuInstance(*node_, gpu(), profile, placement, serial_);
  }
  Return CreateCompute(std::uint64_t instance, std::uint32_t profile) {
    return CreateComputeInstance(*node_, gpu(), instance, profile, std::nullopt, compute_);
  }
  const GpuInstanceState& Last() { return *FindInstance(gpu(), serial_); }

  std::unique_ptr<NodeState> node_ = std::make_unique<NodeState>();
  std::uint64_t serial_ = 0;
  std::uint64_t compute_ = 0;
};

// mig-manager.md section 12.1: how many of each profile fit on an A100-40GB.
TEST_F(Mig, AsManyOfAProfileAsTheTableSays) {
  const std::pair<std::uint32_t, unsigned> kTable[] = {
      {kOneSlice, 7},    {kOneSliceMedia, 1}, {kOneSliceDouble, 4}, {kTwoSlices, 3},
      {kThreeSlices, 2}, {kFourSlices, 1},    {kWhole, 1}};
  for (const auto& [profile, most] : kTable) {
    SCOPED_TRACE(profile);
    EXPECT_EQ(RemainingCapacity(gpu(), *FindProfileById(gpu(), profile)), most);
    unsigned made = 0;
    while (Create(profile) == kSuccess) ++made;
    EXPECT_EQ(made, most);
    EXPECT_EQ(RemainingCapacity(gpu(), *FindProfileById(gpu(), profile)), 0u);
    for (auto& instance : gpu().instances) instance = {};
  }
}

TEST_F(Mig, InstancesNeedMigMode) {
  gpu().mig_current = gpu().mig_pending = 0;
  EXPECT_EQ(Create(kOneSlice), kNotSupported);
}

TEST_F(Mig, UnknownProfilesAndPlacementsAreInvalid) {
  EXPECT_EQ(Create(77), kInvalidArgument);
  EXPECT_EQ(Create(kTwoSlices, gpu::MigPlacement{1, 2}), kInvalidArgument);
  EXPECT_EQ(Create(kThreeSlices, gpu::MigPlacement{0, 3}), kInvalidArgument);
}

TEST_F(Mig, OverlapsAreRefused) {
  ASSERT_EQ(Create(kThreeSlices, gpu::MigPlacement{0, 4}), kSuccess);
  EXPECT_EQ(Create(kOneSlice, gpu::MigPlacement{3, 1}), kInsufficientResources);
  EXPECT_EQ(Create(kFourSlices), kInsufficientResources);
  EXPECT_EQ(Create(kWhole), kInsufficientResources);
  EXPECT_EQ(Create(kThreeSlices), kSuccess);
  EXPECT_EQ(Create(kOneSlice), kInsufficientResources) << "seven slices, but all memory is taken";
}

TEST_F(Mig, IdsAreThoseOfTheDriver) {
  ASSERT_EQ(Create(kWhole), kSuccess);
  EXPECT_EQ(Last().id, 0u);
  ASSERT_EQ(DestroyGpuInstance(gpu(), serial_), kSuccess);
  ASSERT_EQ(Create(kThreeSlices), kSuccess);
  EXPECT_EQ(Last().id, 1u);
  EXPECT_EQ(Last().start, 4u);
  ASSERT_EQ(Create(kThreeSlices), kSuccess);
  EXPECT_EQ(Last().id, 2u);
}

// A public walk-through of MIG on an H100 lists these ids for seven 1g, one of an A100 these for
// three 2g.
TEST_F(Mig, IdsAreDifferentInEveryLayout) {
  std::set<std::uint32_t> ids;
  while (Create(kOneSlice) == kSuccess) EXPECT_TRUE(ids.insert(Last().id).second);
  EXPECT_EQ(ids, (std::set<std::uint32_t>{7, 8, 9, 11, 12, 13, 14}));
  for (auto& instance : gpu().instances) instance = {};
  ids.clear();
  while (Create(kTwoSlices) == kSuccess) ids.insert(Last().id);
  EXPECT_EQ(ids, (std::set<std::uint32_t>{3, 5, 6}));
}

class MigOfRtxPro : public Mig {
 protected:
  MigOfRtxPro() : Mig("gpus: [{profile: RTX-PRO-6000, mig: {enabled: true}}]") {}
};

// A public walk-through on RTX PRO 6000: ids and places of four 1g.24gb, and of 2g.48gb beside two.
TEST_F(MigOfRtxPro, IdsFollowThePlaces) {
  constexpr std::uint32_t kQuarter = 14;
  constexpr std::uint32_t kHalf = 5;
  for (const std::uint32_t start : {0, 3, 6, 9}) {
    ASSERT_EQ(Create(kQuarter, gpu::MigPlacement{start, 3}), kSuccess);
    EXPECT_EQ(Last().id, 3 + start / 3);
  }
  for (auto& instance : gpu().instances) instance = {};
  ASSERT_EQ(Create(kHalf, gpu::MigPlacement{0, 6}), kSuccess);
  EXPECT_EQ(Last().id, 1u);
}

// All media engines in one instance leave none for another: only instances without engines fit.
TEST_F(MigOfRtxPro, EnginesAreNotHandedOutTwice) {
  constexpr std::uint32_t kQuarter = 14;
  constexpr std::uint32_t kQuarterAllEngines = 65;
  constexpr std::uint32_t kQuarterNoEngines = 67;
  ASSERT_EQ(Create(kQuarterAllEngines), kSuccess);
  EXPECT_EQ(Create(kQuarter), kInsufficientResources);
  EXPECT_EQ(RemainingCapacity(gpu(), *FindProfileById(gpu(), kQuarter)), 0u);
  EXPECT_EQ(Create(kQuarterNoEngines), kSuccess);
}

// mig-manager.md section 5.4: destroying goes inside out.
TEST_F(Mig, AnInstanceInUseIsNotDestroyed) {
  ASSERT_EQ(Create(kTwoSlices), kSuccess);
  ASSERT_EQ(CreateCompute(serial_, 1), kSuccess);
  EXPECT_EQ(DestroyGpuInstance(gpu(), serial_), kInUse);
  ASSERT_TRUE(AddProcess(gpu(), 42, "job", 1 << 20, false, Last().id, 0));
  EXPECT_EQ(DestroyComputeInstance(gpu(), serial_, compute_), kInUse);
  EXPECT_TRUE(RemoveProcess(gpu(), 42));
  EXPECT_EQ(DestroyComputeInstance(gpu(), serial_, compute_), kSuccess);
  EXPECT_EQ(DestroyComputeInstance(gpu(), serial_, compute_), kNotFound);
  EXPECT_EQ(DestroyGpuInstance(gpu(), serial_), kSuccess);
  EXPECT_EQ(DestroyGpuInstance(gpu(), serial_), kNotFound);
}

// mig-manager.md section 12.2: 3 slices hold three 1c, or one 2c and one 1c, or one 3c.
TEST_F(Mig, ComputeInstancesShareTheSlices) {
  ASSERT_EQ(Create(kThreeSlices), kSuccess);
  const auto instance = serial_;
  ASSERT_EQ(CreateCompute(instance, 1), kSuccess);
  EXPECT_EQ(CreateCompute(instance, 1), kInsufficientResources);
  EXPECT_EQ(CreateCompute(instance, 2), kInsufficientResources);
  ASSERT_EQ(CreateCompute(instance, 0), kSuccess);
  EXPECT_EQ(CreateCompute(instance, 0), kInsufficientResources);
  EXPECT_EQ(CreateCompute(instance, 4), kInvalidArgument) << "a 7-slice profile";
  const auto devices = ListMigDevices(gpu());
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0].compute_id, 0u);
  EXPECT_EQ(devices[1].compute_id, 1u);
}

TEST_F(Mig, UuidsFollowThePlace) {
  ASSERT_EQ(Create(kTwoSlices, gpu::MigPlacement{0, 2}), kSuccess);
  ASSERT_EQ(CreateCompute(serial_, 1), kSuccess);
  const auto first = MigUuid(gpu(), Last(), *FindComputeInstance(Last(), compute_));
  ASSERT_EQ(DestroyComputeInstance(gpu(), serial_, compute_), kSuccess);
  ASSERT_EQ(DestroyGpuInstance(gpu(), serial_), kSuccess);
  ASSERT_EQ(Create(kTwoSlices, gpu::MigPlacement{0, 2}), kSuccess);
  ASSERT_EQ(CreateCompute(serial_, 1), kSuccess);
  EXPECT_EQ(MigUuid(gpu(), Last(), *FindComputeInstance(Last(), compute_)), first);
  EXPECT_TRUE(first.starts_with("MIG-"));
  EXPECT_EQ(first.size(), 40u);
}

// With a busy driver, set Enabled leaves current Disabled and pending true.
TEST_F(Mig, AModeChangeOfABusyGpuIsPendingUntilReset) {
  RecordProperty("holds", "mig-manager.md #34");
  gpu().mig_current = gpu().mig_pending = 0;
  ASSERT_TRUE(AddProcess(gpu(), 42, "job", 1 << 20, false));
  Return activation = kUnknown;
  EXPECT_EQ(SetMigMode(gpu(), true, activation), kSuccess);
  EXPECT_EQ(activation, kInUse);
  EXPECT_EQ(gpu().mig_current, 0u);
  EXPECT_EQ(gpu().mig_pending, 1u);
  EXPECT_EQ(ResetGpu(gpu()), kInUse);
  EXPECT_TRUE(RemoveProcess(gpu(), 42));
  EXPECT_EQ(ResetGpu(gpu()), kSuccess);
  EXPECT_EQ(gpu().mig_current, 1u);
}

// Set 1, get (1, 1).
TEST_F(Mig, AModeChangeOfAnIdleGpuIsImmediate) {
  RecordProperty("holds", "feature-discovery.md #27");
  gpu().mig_current = gpu().mig_pending = 0;
  Return activation = kUnknown;
  EXPECT_EQ(SetMigMode(gpu(), true, activation), kSuccess);
  EXPECT_EQ(activation, kSuccess);
  EXPECT_EQ(gpu().mig_current, 1u);
  EXPECT_EQ(gpu().mig_pending, 1u);
  ASSERT_EQ(Create(kOneSlice), kSuccess);
  EXPECT_EQ(SetMigMode(gpu(), false, activation), kInUse) << "instances are in the way";
}

class MigA30 : public Mig {
 protected:
  MigA30() : Mig("gpus: [{profile: A30, mig: {enabled: true}}]") {}
};

// mig-manager.md section 12.1 and 8: the A30's fixed list.
TEST_F(MigA30, AsManyOfAProfileAsTheTableSays) {
  const std::pair<std::uint32_t, unsigned> kTable[] = {{14, 4}, {21, 1}, {5, 2}, {6, 1}, {0, 1}};
  for (const auto& [profile, most] : kTable) {
    SCOPED_TRACE(profile);
    unsigned made = 0;
    while (Create(profile) == kSuccess) ++made;
    EXPECT_EQ(made, most);
    for (auto& instance : gpu().instances) instance = {};
  }
}

TEST(MigCapability, OnlySomeGpusHaveIt) {
  TestNode made("gpus: [{profile: T4}]");
  auto node = std::make_unique<NodeState>(*made.file().Snapshot());
  Return activation = kSuccess;
  EXPECT_EQ(SetMigMode(node->gpus[0], true, activation), kNotSupported);
}

}  // namespace
}  // namespace pitcrew::simulation
