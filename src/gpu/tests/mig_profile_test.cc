#include "gpu/mig_profile.h"

#include <gtest/gtest.h>

namespace pitcrew::gpu {
namespace {

constexpr std::uint64_t kGib = 1024ull * 1024 * 1024;

std::string NameOf(unsigned gpu_instance, unsigned compute_instance, std::uint64_t mib,
                   std::uint64_t total) {
  const auto profile = NameMigProfile(gpu_instance, compute_instance, mib, total);
  return profile ? profile->Name() : profile.error().reason;
}

TEST(MigProfileName, A100WithFortyGibibytes) {
  RecordProperty("holds", "feature-discovery.md #25");
  EXPECT_EQ(NameOf(0, 0, 4864, 40 * kGib), "1g.5gb");
  EXPECT_EQ(NameOf(7, 0, 4864, 40 * kGib), "1g.5gb+me");
  EXPECT_EQ(NameOf(9, 0, 9856, 40 * kGib), "1g.10gb");
  EXPECT_EQ(NameOf(1, 0, 9856, 40 * kGib), "1c.2g.10gb");
  EXPECT_EQ(NameOf(2, 2, 19968, 40 * kGib), "3g.20gb");
  EXPECT_EQ(NameOf(4, 4, 40192, 40 * kGib), "7g.40gb");
}

// feature-discovery.md section 17: the A30 row.
TEST(MigProfileName, A30) {
  EXPECT_EQ(NameOf(0, 0, 5836, 24 * kGib), "1g.6gb");
  EXPECT_EQ(NameOf(8, 1, 11672, 24 * kGib), "2g.12gb+me");
  EXPECT_EQ(NameOf(3, 3, 23344, 24 * kGib), "4g.24gb");
}

// Index 17 must not make a listing fail.
TEST(MigProfileName, ThreeSliceGraphicsHasAName) {
  RecordProperty("holds", "feature-discovery.md #26");
  EXPECT_EQ(NameOf(17, 2, 20480, 80 * kGib), "3g.20gb+gfx");
  EXPECT_EQ(NameOf(18, 0, 20480, 80 * kGib), "InvalidMigProfile");
  EXPECT_EQ(NameOf(0, 9, 20480, 80 * kGib), "InvalidMigProfile");
  EXPECT_EQ(NameOf(0, 0, 20480, 0), "InvalidMigProfile");
}

// feature-discovery.md section 15: suffixes by index.
TEST(MigProfileName, Attributes) {
  EXPECT_EQ(NameOf(15, 0, 24576, 96 * kGib), "1g.24gb+me.all");
  EXPECT_EQ(NameOf(13, 0, 24576, 96 * kGib), "1g.24gb-me");
  EXPECT_EQ(NameOf(12, 3, 98304, 96 * kGib), "4g.96gb+gfx");
}

// device-plugin.md section 8.1: names of resources.
TEST(MigProfileName, ResourceSuffixReplacesPlus) {
  EXPECT_EQ(MigProfile::Parse("1g.5gb")->ResourceSuffix(), "1g.5gb");
  EXPECT_EQ(MigProfile::Parse("1g.5gb+me")->ResourceSuffix(), "1g.5gb.me");
  EXPECT_EQ(MigProfile::Parse("1g.24gb+me.all")->ResourceSuffix(), "1g.24gb.me.all");
  EXPECT_EQ(MigProfile::Parse("1g.24gb-me")->ResourceSuffix(), "1g.24gb-me");
}

// mig-manager.md section 3.2
TEST(MigProfileParse, AcceptsTheGrammar) {
  for (const char* name : {"1g.5gb", "1c.2g.10gb", "7g.80gb", "1g.10gb+me", "1g.24gb+me.all",
                           "1g.24gb-me", "2g.48gb+gfx,me"}) {
    const auto profile = MigProfile::Parse(name);
    ASSERT_TRUE(profile) << name << ": " << profile.error().message;
    EXPECT_EQ(profile->Name(), name);
  }
  EXPECT_EQ(MigProfile::Parse("7c.7g.40gb")->Name(), "7g.40gb");
}

// mig-manager.md section 3.2: what a name must not be.
TEST(MigProfileParse, RefusesEverythingElse) {
  for (const char* name :
       {"", "bogus", "1g", "1g.5", "g.5gb", "1g.5gb+", "1g.5gb+me,me", "1g.5gb+1me", "1g.5gb+me.",
        "1g.5gb+me-me", " 1g.5gb", "1g.5gb ", "1x.1g.5gb", "-1g.5gb", "1c.1g.5gb.6gb"}) {
    EXPECT_FALSE(MigProfile::Parse(name)) << name;
  }
}

// mig-manager.md section 5.5
TEST(MigProfileList, CombinationRule) {
  EXPECT_TRUE(IsListedCombination(1, 1));
  EXPECT_TRUE(IsListedCombination(1, 2));
  EXPECT_TRUE(IsListedCombination(2, 3));
  EXPECT_FALSE(IsListedCombination(3, 4));
  EXPECT_TRUE(IsListedCombination(4, 7));
  EXPECT_FALSE(IsListedCombination(2, 1));
}

}  // namespace
}  // namespace pitcrew::gpu
