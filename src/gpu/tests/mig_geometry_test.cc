#include "gpu/mig_geometry.h"

#include <gtest/gtest.h>

namespace pitcrew::gpu {
namespace {

using Placements = std::vector<MigPlacement>;

// mig-manager.md section 12.2: the A100's placements.
const Placements kOne = {{0, 1}, {1, 1}, {2, 1}, {3, 1}, {4, 1}, {5, 1}, {6, 1}};
const Placements kOneDouble = {{0, 2}, {2, 2}, {4, 2}, {6, 2}};
const Placements kTwo = {{0, 2}, {2, 2}, {4, 2}};
const Placements kThree = {{0, 4}, {4, 4}};
const Placements kFour = {{0, 4}};
const Placements kSeven = {{0, 8}};

Placements All() {
  Placements all;
  for (const auto* some : {&kOne, &kOneDouble, &kTwo, &kThree, &kFour, &kSeven}) {
    all.insert(all.end(), some->begin(), some->end());
  }
  return all;
}

TEST(MigGeometry, OverlapIsOnSharedSlices) {
  EXPECT_TRUE(Overlaps({0, 4}, {3, 1}));
  EXPECT_FALSE(Overlaps({0, 4}, {4, 4}));
  EXPECT_TRUE(Overlaps({0, 8}, {6, 1}));
}

TEST(MigGeometry, OnlyWhatOverlapsNothingIsFree) {
  EXPECT_EQ(FreePlacements(kTwo, Placements{{4, 4}}), (Placements{{0, 2}, {2, 2}}));
  EXPECT_TRUE(FreePlacements(kSeven, Placements{{6, 1}}).empty());
}

TEST(MigGeometry, AThreeSliceInstanceLeavesRoomForAFourSliceOne) {
  EXPECT_EQ(ChoosePlacement(kThree, {}, All()), (MigPlacement{4, 4}));
}

TEST(MigGeometry, ASmallInstanceTakesTheSliceThatMattersLeast) {
  EXPECT_EQ(ChoosePlacement(kOne, {}, All()), (MigPlacement{6, 1}));
}

TEST(MigGeometry, OfEqualPlacesTheFirstIsTaken) {
  EXPECT_EQ(ChoosePlacement(kOne, {}, kOne), (MigPlacement{0, 1}));
  EXPECT_EQ(ChoosePlacement(kOne, Placements{{0, 1}}, kOne), (MigPlacement{1, 1}));
  EXPECT_EQ(ChoosePlacement(Placements(kOne.rbegin(), kOne.rend()), {}, kOne),
            (MigPlacement{0, 1}));
}

TEST(MigGeometry, NothingFree) {
  EXPECT_EQ(ChoosePlacement(kFour, Placements{{2, 1}}, All()), std::nullopt);
}

// mig-manager.md section 5.4: mig-parted creates the largest first; all-balanced (3g, 2g, 2 x 1g)
// fits.
TEST(MigGeometry, ABalancedLayoutFitsLargestFirst) {
  Placements occupied;
  for (const Placements* possible : {&kThree, &kTwo, &kOne, &kOne}) {
    const auto chosen = ChoosePlacement(*possible, occupied, All());
    ASSERT_TRUE(chosen);
    occupied.push_back(*chosen);
  }
}

}  // namespace
}  // namespace pitcrew::gpu
