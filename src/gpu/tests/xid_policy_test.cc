#include "gpu/xid_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpu/mig_strategy.h"

namespace pitcrew::gpu {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(XidPolicy, ParsesLists) {
  RecordProperty("holds", "device-plugin.md #41");
  for (const auto* text : {"", ",", "not-an-int", "-68"}) {
    EXPECT_THAT(ParseXidList(text).xids, IsEmpty()) << text;
    EXPECT_FALSE(ParseXidList(text).all) << text;
  }
  for (const auto* text : {"68", "68  ", "68,", ",68"}) {
    EXPECT_THAT(ParseXidList(text).xids, ElementsAre(68)) << text;
  }
  EXPECT_THAT(ParseXidList("68,not-an-int,67").xids, ElementsAre(67, 68));
  EXPECT_TRUE(ParseXidList("1,ALL").all);
  EXPECT_TRUE(ParseXidList("xids").all);
}

TEST(XidPolicy, IgnoresTheApplicationsErrorsByDefault) {
  RecordProperty("holds", "device-plugin.md #42");
  const XidPolicy policy;
  for (const std::uint64_t xid : {13, 31, 43, 45, 68, 109}) {
    EXPECT_EQ(policy.EffectOf(xid), XidEffect::kIgnore) << xid;
  }
  for (const std::uint64_t xid : {48, 79, 94, 555}) {
    EXPECT_NE(policy.EffectOf(xid), XidEffect::kIgnore) << xid;
  }
  EXPECT_FALSE(policy.IsOff());
}

TEST(XidPolicy, DisablingAllTurnsHealthChecksOff) {
  RecordProperty("holds", "device-plugin.md #42");
  for (const auto* all : {"all", "xids"}) {
    const auto policy = XidPolicy::FromLists(all, "");
    EXPECT_TRUE(policy.IsOff());
    EXPECT_EQ(policy.EffectOf(555), XidEffect::kIgnore);
  }
}

TEST(XidPolicy, EnablingAllIncludesTheDefaults) {
  RecordProperty("holds", "device-plugin.md #42");
  const auto policy = XidPolicy::FromLists("all", "all");
  EXPECT_FALSE(policy.IsOff());
  EXPECT_NE(policy.EffectOf(13), XidEffect::kIgnore);
  EXPECT_NE(policy.EffectOf(555), XidEffect::kIgnore);
}

TEST(XidPolicy, EnablingOneKeepsTheOtherDefaults) {
  RecordProperty("holds", "device-plugin.md #42");
  const auto policy = XidPolicy::FromLists("11", "11");
  EXPECT_NE(policy.EffectOf(11), XidEffect::kIgnore);
  EXPECT_EQ(policy.EffectOf(13), XidEffect::kIgnore);
  EXPECT_EQ(XidPolicy::FromLists("11", "").EffectOf(11), XidEffect::kIgnore);
}

TEST(XidPolicy, SingleXidsCountEvenWhenTheRestIsOff) {  // device-plugin.md section 22 number 6
  const auto policy = XidPolicy::FromLists("all", "79");
  EXPECT_FALSE(policy.IsOff());
  EXPECT_EQ(policy.EffectOf(79), XidEffect::kUntilAnswers);
  EXPECT_EQ(policy.EffectOf(48), XidEffect::kIgnore);
}

TEST(XidPolicy, AnUnknownXidNeedsAReset) {
  EXPECT_EQ(XidPolicy().EffectOf(48), XidEffect::kUntilReset);
  EXPECT_EQ(XidPolicy().EffectOf(94), XidEffect::kUntilQuiet);
}

TEST(XidPolicy, AnXidHasAMeaning) {
  EXPECT_EQ(MeaningOfXid(79), "the GPU has fallen off the bus");
  EXPECT_EQ(MeaningOfXid(123456), "see NVIDIA's XID catalogue");
}

TEST(MigStrategy, NamesRoundTrip) {
  for (const auto* name : {"none", "single", "mixed"}) {
    EXPECT_EQ(ToString(ParseMigStrategy(name).value()), name);
  }
  EXPECT_EQ(ParseMigStrategy("").error().reason, "UnknownMigStrategy");
  EXPECT_EQ(ParseMigStrategy("Single").error().reason, "UnknownMigStrategy");
}

TEST(MigStrategy, ResourceNames) {  // device-plugin.md section 8.1
  for (const auto& [profile, name] : std::initializer_list<std::pair<const char*, const char*>>{
           {"1g.5gb", "nvidia.com/mig-1g.5gb"},
           {"1g.5gb+me", "nvidia.com/mig-1g.5gb.me"},
           {"1g.24gb+me.all", "nvidia.com/mig-1g.24gb.me.all"},
           {"1g.24gb-me", "nvidia.com/mig-1g.24gb-me"},
           {"1g.24gb+gfx", "nvidia.com/mig-1g.24gb.gfx"}}) {
    EXPECT_EQ(MigResourceName(MigProfile::Parse(profile).value()), name);
  }
}

}  // namespace
}  // namespace pitcrew::gpu
