#include "node/mig/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "node/mig/profiles.h"
#include "support_boards.h"

namespace pitcrew::node::mig {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

std::vector<gpu::MigPlacement> PlacesOf(const Layout& layout) {
  std::vector<gpu::MigPlacement> places;
  for (const auto& instance : layout.instances) places.push_back(*instance.placement);
  return places;
}

TEST(PlannerTest, WhatFitsOnAnA100AndWhatDoesNot) {
  RecordProperty("holds", "mig-manager.md #33");
  const Gpu gpu = A100With40Gb(0);
  EXPECT_TRUE(PlanLayout(gpu, {}));
  for (const auto& good : std::initializer_list<ProfileCounts>{
           {{"1g.5gb", 7}}, {{"1g.5gb", 6}}, {{"1g.5gb", 3}, {"2g.10gb", 2}}}) {
    const auto layout = PlanLayout(gpu, good);
    EXPECT_TRUE(layout) << layout.error().ToString();
    EXPECT_EQ(*CountsOf(gpu, *layout), good);
  }
  for (const auto& bad : std::initializer_list<ProfileCounts>{
           {{"bogus", 1}}, {{"bogus", 0}}, {{"1g.5gb", 8}}, {{"1g.5gb", 4}, {"2g.10gb", 2}}}) {
    EXPECT_FALSE(PlanLayout(gpu, bad));
  }
}

// mig-manager.md section 5.6: the most of each profile, one alone.
TEST(PlannerTest, AsManyOfEachAsTheDocumentSays) {
  const Gpu gpu = A100With40Gb(0);
  const ProfileCounts most = {
      {"1g.5gb", 7},     {"1g.5gb+me", 1},  {"1c.2g.10gb", 6}, {"2g.10gb", 3},    {"1c.3g.20gb", 6},
      {"2c.3g.20gb", 2}, {"3g.20gb", 2},    {"1c.4g.20gb", 4}, {"2c.4g.20gb", 2}, {"4g.20gb", 1},
      {"1c.7g.40gb", 7}, {"2c.7g.40gb", 3}, {"3c.7g.40gb", 2}, {"4c.7g.40gb", 1}, {"7g.40gb", 1}};
  for (const auto& [name, count] : most) {
    EXPECT_TRUE(PlanLayout(gpu, {{name, count}})) << name;
    EXPECT_FALSE(PlanLayout(gpu, {{name, count + 1}})) << name;
  }
}

TEST(PlannerTest, PlacesAreThoseOfTheDriver) {
  const Gpu gpu = A100With40Gb(0);
  // A 3-slice instance goes where the 4-slice one cannot (gpu::ChoosePlacement).
  EXPECT_THAT(PlacesOf(*PlanLayout(gpu, {{"3g.20gb", 1}, {"4g.20gb", 1}})),
              ElementsAre(gpu::MigPlacement{0, 4}, gpu::MigPlacement{4, 4}));
  EXPECT_THAT(PlacesOf(*PlanLayout(gpu, {{"3g.20gb", 2}})),
              UnorderedElementsAre(gpu::MigPlacement{0, 4}, gpu::MigPlacement{4, 4}));
}

TEST(PlannerTest, NoTwoInstancesOverlap) {
  const Gpu gpu = A100With40Gb(0);
  for (const auto& counts : std::initializer_list<ProfileCounts>{
           {{"1g.5gb", 2}, {"2g.10gb", 1}, {"3g.20gb", 1}},
           {{"1g.10gb", 4}},
           {{"1g.10gb", 1}, {"2g.10gb", 3}},
           {{"1g.5gb", 1}, {"1g.5gb+me", 1}, {"1g.10gb", 1}, {"3g.20gb", 1}}}) {
    const auto layout = PlanLayout(gpu, counts);
    ASSERT_TRUE(layout) << layout.error().ToString();
    const auto places = PlacesOf(*layout);
    for (std::size_t i = 0; i < places.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) EXPECT_FALSE(gpu::Overlaps(places[i], places[j]));
    }
  }
}

TEST(PlannerTest, ComputeInstancesShareAGpuInstance) {
  const Gpu gpu = A100With40Gb(0);
  EXPECT_THAT(PlanLayout(gpu, {{"1c.3g.20gb", 3}})->instances, SizeIs(1));
  EXPECT_THAT(PlanLayout(gpu, {{"1c.3g.20gb", 4}})->instances, SizeIs(2));
  EXPECT_THAT(PlanLayout(gpu, {{"1c.3g.20gb", 1}, {"2c.3g.20gb", 1}})->instances, SizeIs(1));
  EXPECT_THAT(PlanLayout(gpu, {{"3g.20gb", 1}, {"1c.3g.20gb", 1}})->instances, SizeIs(2));
}

TEST(PlannerTest, NamesMeanTheProfilesOfTheGpuThatGetsThem) {
  RecordProperty("holds", "mig-manager.md #31");
  // On one board 1g.10gb is NVML's profile 9, on the other 0.
  const Gpu small = A100With40Gb(0);
  Gpu large = A100With40Gb(1);
  auto profiles = *large.profiles.value();
  for (auto& profile : profiles) profile.memory_mib *= 2;
  large.profiles = base::Observed<std::vector<Profile>>::Present(profiles);
  large.memory_bytes *= 2;
  EXPECT_EQ(PlanLayout(small, {{"1g.10gb", 1}})->instances.at(0).profile, 9U);
  const auto layout = PlanLayout(large, {{"1g.10gb", 1}});
  ASSERT_THAT(layout->instances, SizeIs(1));
  EXPECT_EQ(layout->instances[0].profile, 0U);
}

TEST(PlannerTest, WhatDoesNotFitIsNamedWithWhatDoes) {
  const Gpu gpu = A100With40Gb(3);
  const auto many = PlanLayout(gpu, {{"1g.5gb", 8}});
  EXPECT_EQ(many.error().reason, "DoesNotFit");
  EXPECT_EQ(many.error().message,
            "GPU 3 (NVIDIA A100-SXM4-40GB, 0000:13:00.0) has no room for 8 x 1g.5gb; what fits is "
            "7 x 1g.5gb");
  const auto mixed = PlanLayout(gpu, {{"1g.5gb", 4}, {"2g.10gb", 2}});
  EXPECT_THAT(mixed.error().message,
              HasSubstr("no room for 4 x 1g.5gb with 2 x 2g.10gb; what fits is 3 x 1g.5gb with 2 x "
                        "2g.10gb, or 4 x 1g.5gb with 1 x 2g.10gb"));
  const auto unknown = PlanLayout(gpu, {{"1g.12gb", 1}});
  EXPECT_EQ(unknown.error().reason, "NoSuchProfile");
  EXPECT_THAT(unknown.error().message, HasSubstr("MIG profile \"1g.12gb\" not found on this GPU: "
                                                 "GPU 3 (NVIDIA A100-SXM4-40GB, 0000:13:00.0)"));
  EXPECT_THAT(unknown.error().message, HasSubstr("1g.5gb (up to 7)"));
  EXPECT_FALSE(PlanLayout(gpu, {{"1g.5gb", 2000000000}})) << "and soon";
}

TEST(PlannerTest, EnginesAreHandedOutOnce) {
  const Gpu gpu = A100With40Gb(0);
  EXPECT_TRUE(PlanLayout(gpu, {{"1g.5gb+me", 1}, {"1g.5gb", 6}}));
  EXPECT_FALSE(PlanLayout(gpu, {{"1g.5gb+me", 2}}));
}

TEST(PlannerTest, OnAnA30PlacesDecideAndNotTheCounts) {
  EXPECT_TRUE(PlanLayout(A30(0), {{"1g.6gb", 4}}));
  EXPECT_FALSE(PlanLayout(A30(0), {{"1g.6gb", 5}}));
  EXPECT_TRUE(PlanLayout(A30(0), {{"1g.6gb", 2}, {"2g.12gb", 1}}));
}

TEST(PlannerTest, WithoutPlacesTheDriverChooses) {
  Gpu gpu = A100With40Gb(0);
  auto profiles = *gpu.profiles.value();
  for (auto& profile : profiles) profile.placements.clear();
  gpu.profiles = base::Observed<std::vector<Profile>>::Present(profiles);
  const auto layout = PlanLayout(gpu, {{"1g.5gb", 1}, {"3g.20gb", 1}});
  ASSERT_TRUE(layout) << layout.error().ToString();
  EXPECT_EQ(layout->instances[0].placement, std::nullopt);
  EXPECT_EQ(layout->instances[0].profile, 2U) << "large ones first";
}

TEST(PlannerTest, OtherSpellingsOfANameCount) {
  const Gpu gpu = A100With40Gb(0);
  EXPECT_EQ(*CanonicalCounts(gpu, {{"7c.7g.40gb", 1}, {"1g.5gb", 0}}),
            (ProfileCounts{{"7g.40gb", 1}}));
  EXPECT_THAT(*CanonicalCounts(gpu, {{"1g.5gb", 0}}), IsEmpty());
}

}  // namespace
}  // namespace pitcrew::node::mig
