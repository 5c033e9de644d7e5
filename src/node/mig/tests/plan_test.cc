#include "node/mig/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support_boards.h"

namespace pitcrew::node::mig {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

ConfigEntry On(ProfileCounts counts = {}) {
  return {.mig_enabled = true, .mig_devices = std::move(counts)};
}
ConfigEntry Off() { return {.mig_enabled = false}; }
ConfigEntry At(std::vector<int> positions, ConfigEntry entry) {
  entry.devices = std::move(positions);
  return entry;
}

Gpu With(Gpu gpu, std::vector<GpuInstance> instances) {
  gpu.layout =
      base::Observed<Layout>::Present({.mig_enabled = true, .instances = std::move(instances)});
  return gpu;
}
GpuInstance Whole(unsigned profile, unsigned compute, gpu::MigPlacement place) {
  return {.profile = profile, .placement = place, .compute = {{.profile = compute}}};
}
const GpuInstance kThreeSlices = Whole(2, 2, {4, 4});

TEST(PlanTest, OnlyGpusThatDifferChange) {
  const std::vector<Gpu> gpus = {With(A100With40Gb(0), {kThreeSlices}), A100With40Gb(1)};
  const auto plan = PlanConfig(gpus, {On({{"3g.20gb", 1}})});
  ASSERT_TRUE(plan) << plan.error().ToString();
  ASSERT_THAT(plan->changes, SizeIs(1));
  EXPECT_EQ(plan->changes[0].position, 1);
  EXPECT_FALSE(plan->changes[0].changes_mode);
  EXPECT_TRUE(plan->changes[0].changes_instances);
  EXPECT_THAT(plan->changes[0].after.instances, SizeIs(1));
}

TEST(PlanTest, TheLastEntryForAGpuHolds) {
  const std::vector<Gpu> gpus = {A100With40Gb(0), A100With40Gb(1)};
  const auto plan = PlanConfig(gpus, {Off(), At({1}, On())});
  ASSERT_TRUE(plan) << plan.error().ToString();
  ASSERT_THAT(plan->changes, SizeIs(1));
  EXPECT_EQ(plan->changes[0].position, 0);
}

TEST(PlanTest, GpusThatNoEntryIsForStay) {
  ConfigEntry other = Off();
  other.device_filter = {"0x233010DE"};
  EXPECT_THAT(PlanConfig({A100With40Gb(0)}, {other})->changes, IsEmpty());
  EXPECT_THAT(AssertConfig({A100With40Gb(0)}, {other}).error().message,
              HasSubstr("not all GPUs match the specified config: no entry is for GPU 0"));
  EXPECT_TRUE(AssertModes({A100With40Gb(0)}, {other}));
}

TEST(PlanTest, ProfilesThatAreToldOnlyWithMigOnArePlannedLater) {
  Gpu gpu = WithMigOff(A100With40Gb(0));
  gpu.profiles =
      base::Observed<std::vector<Profile>>::Unknown(base::Unavailable("NoProfiles", "off"));
  const auto plan = PlanConfig({gpu}, {On({{"1g.5gb", 7}})});
  ASSERT_TRUE(plan) << plan.error().ToString();
  EXPECT_TRUE(plan->changes.at(0).changes_mode);
  EXPECT_TRUE(plan->changes[0].instances_planned_later);
}

TEST(PlanTest, AnImpossibleGeometryIsRefusedBeforeAnythingChanges) {
  const std::vector<Gpu> gpus = {WithMigOff(A100With40Gb(0)), WithMigOff(A100With40Gb(1))};
  const auto plan = PlanConfig(gpus, {On({{"1g.10gb", 7}})});
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().reason, "DoesNotFit");
  EXPECT_THAT(plan.error().message, HasSubstr("GPU 0 (NVIDIA A100-SXM4-40GB"));
  EXPECT_THAT(plan.error().message, HasSubstr("what fits is 4 x 1g.10gb; GPU 1"));
}

TEST(PlanTest, BoardsWithoutMigArePassedOverOrRefused) {
  const std::vector<Gpu> gpus = {WithoutMig(0), A100With40Gb(1)};
  const auto plan = PlanConfig(gpus, {On()});
  ASSERT_TRUE(plan) << plan.error().ToString();
  EXPECT_THAT(plan->changes, IsEmpty());
  EXPECT_THAT(plan->remarks, ElementsAre(HasSubstr("GPU 0")));
  EXPECT_EQ(PlanConfig(gpus, {At({0}, On())}).error().reason, "NotMigCapable");
  EXPECT_TRUE(PlanConfig(gpus, {At({0}, Off())}));
}

TEST(PlanTest, PositionsThatNoGpuHasAreRemarked) {
  EXPECT_THAT(PlanConfig({A100With40Gb(0)}, {At({0, 7}, On())})->remarks,
              ElementsAre("the configuration names GPU 7, and this node has 1"));
}

// mig-manager.md section 2.6.
TEST(AssertTest, Modes) {
  const Gpu off = WithMigOff(A100With40Gb(0));
  EXPECT_TRUE(AssertModes({off}, {Off()}));
  EXPECT_THAT(AssertModes({off}, {On()}).error().message,
              HasSubstr("current mode different than mode being asserted"));
  EXPECT_TRUE(AssertModes({WithoutMig(0)}, {Off()}));
  EXPECT_THAT(AssertModes({WithoutMig(0)}, {On()}).error().message,
              HasSubstr("unable to assert MIG mode enabled on non MIG-capable GPU"));
  EXPECT_FALSE(AssertModes({WithoutMig(0), A100With40Gb(1)}, {At({0, 1}, On())}));
  EXPECT_TRUE(AssertModes({WithoutMig(0), A100With40Gb(1)}, {On()})) << "weakness 5";
  Gpu waiting = off;
  waiting.mode = base::Observed<gpu::MigMode>::Present({.current = false, .pending = true});
  EXPECT_FALSE(AssertModes({waiting}, {On()})) << "what waits for a reset does not count";
}

TEST(AssertTest, Configurations) {
  const Gpu gpu = With(A100With40Gb(0), {kThreeSlices});
  EXPECT_TRUE(AssertConfig({gpu}, {On({{"3g.20gb", 1}})}));
  EXPECT_TRUE(AssertConfig({gpu}, {On({{"3c.3g.20gb", 1}, {"1g.5gb", 0}})}));
  EXPECT_FALSE(AssertConfig({gpu}, {On({{"3g.20gb", 2}})}));
  EXPECT_FALSE(AssertConfig({gpu}, {On()}));
  EXPECT_FALSE(AssertConfig({gpu}, {Off()}));
  EXPECT_TRUE(AssertConfig({WithMigOff(A100With40Gb(0)), WithoutMig(1)}, {Off()}));
  EXPECT_FALSE(AssertConfig({WithoutMig(0)}, {On()}));
  EXPECT_TRUE(AssertConfig({WithoutMig(0), gpu}, {On({{"3g.20gb", 1}})}));
}

TEST(AssertTest, AGpuInstanceThatServesNobodyIsADifference) {
  const Gpu gpu = With(A100With40Gb(0), {kThreeSlices, {.profile = 0, .placement = {{0, 1}}}});
  EXPECT_FALSE(AssertConfig({gpu}, {On({{"3g.20gb", 1}})}));
  EXPECT_THAT(PlanConfig({gpu}, {On({{"3g.20gb", 1}})})->changes, SizeIs(1));
}

TEST(PlanCheckpointTest, GpusAreKnownByTheirUuid) {
  const Gpu gpu = With(A100With40Gb(1), {kThreeSlices});
  const Checkpoint same{{{gpu.uuid, {.mig_enabled = true, .instances = {kThreeSlices}}}}};
  EXPECT_THAT(PlanCheckpoint({A100With40Gb(0), gpu}, same)->changes, IsEmpty())
      << "others do not matter";
  const Checkpoint elsewhere{
      {{gpu.uuid, {.mig_enabled = true, .instances = {Whole(2, 2, {0, 4})}}}}};
  EXPECT_THAT(PlanCheckpoint({gpu}, elsewhere)->changes, SizeIs(1)) << "at another place";
  const Checkpoint gone{{{"GPU-gone", {.mig_enabled = true}}}};
  EXPECT_EQ(PlanCheckpoint({gpu}, gone).error().reason, "GpuMissing");
}

}  // namespace
}  // namespace pitcrew::node::mig
