#include "node/mig/export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support_boards.h"

namespace pitcrew::node::mig {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::Not;
using ::testing::SizeIs;

const std::string kA = "0x20B010DE";
const std::string kB = "0x233010DE";

ConfigEntry Of(int position, const std::string& id, ProfileCounts counts) {
  return {.device_filter = {id},
          .devices = std::vector<int>{position},
          .mig_enabled = true,
          .mig_devices = std::move(counts)};
}
ConfigEntry Merged(std::vector<std::string> filter, std::optional<std::vector<int>> devices,
                   ProfileCounts counts) {
  const bool is_text = filter.size() == 1;
  return {.device_filter = std::move(filter),
          .filter_is_text = is_text,
          .devices = std::move(devices),
          .mig_enabled = true,
          .mig_devices = std::move(counts)};
}

const ProfileCounts kOne = {{"1g.5gb", 7}};
const ProfileCounts kTwo = {{"2g.10gb", 3}};

TEST(MergeTest, NothingAndOneGpu) {
  RecordProperty("holds", "mig-manager.md #18");
  EXPECT_THAT(MergeEntries({}), IsEmpty());
  EXPECT_THAT(MergeEntries({Of(0, kA, kOne)}), ElementsAre(Merged({}, std::nullopt, kOne)));
}

TEST(MergeTest, TwoGpusOfOneKind) {
  RecordProperty("holds", "mig-manager.md #19");
  EXPECT_THAT(MergeEntries({Of(0, kA, kOne), Of(1, kA, kOne)}),
              ElementsAre(Merged({}, std::nullopt, kOne)));
  EXPECT_THAT(MergeEntries({Of(0, kA, kOne), Of(1, kA, kTwo)}),
              ElementsAre(Merged({}, {{0}}, kOne), Merged({}, {{1}}, kTwo)));
}

TEST(MergeTest, TwoKinds) {
  RecordProperty("holds", "mig-manager.md #20");
  EXPECT_THAT(MergeEntries({Of(0, kA, kOne), Of(1, kB, kOne)}),
              ElementsAre(Merged({}, std::nullopt, kOne)));
  EXPECT_THAT(MergeEntries({Of(0, kA, kOne), Of(1, kA, kOne), Of(2, kB, kTwo), Of(3, kB, kTwo)}),
              ElementsAre(Merged({kA}, std::nullopt, kOne), Merged({kB}, std::nullopt, kTwo)));
  EXPECT_THAT(MergeEntries({Of(0, kB, kOne), Of(1, kA, kTwo), Of(2, kA, kOne), Of(3, kB, kTwo)}),
              ElementsAre(Merged({kA, kB}, {{0, 2}}, kOne), Merged({kA, kB}, {{1, 3}}, kTwo)));
}

TEST(ExportTest, EveryGpuIsSaid) {
  Gpu divided = A100With40Gb(0);
  divided.layout = base::Observed<Layout>::Present(
      {.mig_enabled = true,
       .instances = {{.profile = 2, .placement = {}, .compute = {{.profile = 2}}},
                     {.profile = 0, .placement = {}, .compute = {{.profile = 7}}},
                     {.profile = 0}}});
  const auto configuration =
      ExportConfiguration({divided, WithMigOff(A100With40Gb(1)), WithoutMig(2)}, "mine");
  ASSERT_TRUE(configuration) << configuration.error().ToString();
  ASSERT_THAT(configuration->configs, ElementsAre(Key("mine")));
  const auto& entries = configuration->configs.at("mine");
  ASSERT_THAT(entries, SizeIs(2));
  EXPECT_EQ(entries[0].mig_devices, (ProfileCounts{{"3g.20gb", 1}, {"1g.5gb", 1}}))
      << "a GPU instance without a compute instance is no MIG device";
  EXPECT_FALSE(entries[1].mig_enabled);
  EXPECT_EQ(entries[1].devices, (std::vector<int>{1, 2}));
}

TEST(ExportTest, AGpuThatCannotBeReadIsNoGpuWithoutMig) {
  Gpu lost = A100With40Gb(0);
  lost.mode = base::Observed<gpu::MigMode>::Unknown(base::Unavailable("GpuIsLost", "lost"));
  EXPECT_EQ(ExportConfiguration({lost}, "mine").error().reason, "GpuIsLost");
  EXPECT_EQ(DiscoverProfiles({lost}).error().reason, "GpuIsLost");
}

TEST(GenerateTest, NamesOfConfigurations) {
  RecordProperty("holds", "mig-manager.md #21");
  EXPECT_EQ(ConfigName("1g.10gb"), "all-1g.10gb");
  EXPECT_EQ(ConfigName("1g.10gb+me"), "all-1g.10gb.me");
  EXPECT_EQ(ConfigName("4g.96gb+gfx"), "all-4g.96gb.gfx");
  EXPECT_EQ(ConfigName("1g.24gb+me.all"), "all-1g.24gb.me.all");
  EXPECT_EQ(ConfigName("1g.24gb-me"), "all-1g.24gb-me");
}

// mig-manager.md section 12.1.
const BoardProfiles kA100With80{{0x20B210DE, {}},
                                {{"1g.10gb", 7},
                                 {"1g.10gb+me", 1},
                                 {"1g.20gb", 4},
                                 {"2g.20gb", 3},
                                 {"3g.40gb", 2},
                                 {"4g.40gb", 1},
                                 {"7g.80gb", 1}}};
const BoardProfiles kH100With80{{0x233010DE, {}}, kA100With80.counts};
const BoardProfiles kA100With40{{0x20B010DE, {}},
                                {{"1g.5gb", 7},
                                 {"1g.5gb+me", 1},
                                 {"1g.10gb", 4},
                                 {"2g.10gb", 3},
                                 {"3g.20gb", 2},
                                 {"4g.20gb", 1},
                                 {"7g.40gb", 1}}};

ConfigEntry All(std::vector<std::string> filter, ProfileCounts counts) {
  return {
      .device_filter = std::move(filter), .mig_enabled = true, .mig_devices = std::move(counts)};
}

TEST(GenerateTest, OneKindOfBoard) {
  RecordProperty("holds", "mig-manager.md #22");
  const auto configs = GenerateConfiguration({kA100With80, kA100With80}).configs;
  EXPECT_THAT(configs, SizeIs(10));
  EXPECT_THAT(configs.at("all-disabled"), ElementsAre(ConfigEntry{.mig_enabled = false}));
  EXPECT_THAT(configs.at("all-enabled"), ElementsAre(All({}, {})));
  EXPECT_THAT(configs.at("all-balanced"),
              ElementsAre(All({}, {{"1g.10gb", 2}, {"2g.20gb", 1}, {"3g.40gb", 1}})));
  for (const auto& [name, count] : kA100With80.counts) {
    EXPECT_THAT(configs.at(ConfigName(name)), ElementsAre(All({}, {{name, count}}))) << name;
  }
}

TEST(GenerateTest, AnA30HasAListOfItsOwn) {
  RecordProperty("holds", "mig-manager.md #23, #28");
  const auto boards = DiscoverProfiles({A30(0)});
  ASSERT_TRUE(boards) << boards.error().ToString();
  const ProfileCounts expected = {
      {"1g.6gb", 4}, {"1g.6gb+me", 1}, {"2g.12gb", 2}, {"2g.12gb+me", 1}, {"4g.24gb", 1}};
  EXPECT_EQ(boards->at(0).counts, expected);
  const auto configs = GenerateConfiguration(*boards).configs;
  for (const auto& [name, count] : expected) {
    EXPECT_THAT(configs.at(ConfigName(name)), ElementsAre(All({}, {{name, count}}))) << name;
  }
  EXPECT_THAT(configs.at("all-balanced"), ElementsAre(All({}, {{"1g.6gb", 2}, {"2g.12gb", 1}})));
}

TEST(GenerateTest, TwoKindsOfBoardsWithTheSameProfiles) {
  RecordProperty("holds", "mig-manager.md #24");
  const auto configs = GenerateConfiguration({kH100With80, kA100With80}).configs;
  EXPECT_THAT(configs.at("all-2g.20gb"),
              ElementsAre(All({"0x20B210DE", "0x233010DE"}, {{"2g.20gb", 3}})));
  const ProfileCounts balanced = {{"1g.10gb", 2}, {"2g.20gb", 1}, {"3g.40gb", 1}};
  EXPECT_THAT(configs.at("all-balanced"),
              ElementsAre(All({"0x20B210DE"}, balanced), All({"0x233010DE"}, balanced)));
  EXPECT_THAT(configs.at("all-disabled").at(0).device_filter, IsEmpty());
}

TEST(GenerateTest, OneProfileTwoCounts) {
  RecordProperty("holds", "mig-manager.md #25");
  const auto configs = GenerateConfiguration({kA100With80, kA100With40}).configs;
  EXPECT_THAT(configs.at("all-1g.10gb"), ElementsAre(All({"0x20B010DE"}, {{"1g.10gb", 4}}),
                                                     All({"0x20B210DE"}, {{"1g.10gb", 7}})));
  EXPECT_THAT(configs.at("all-1g.5gb"), ElementsAre(All({"0x20B010DE"}, {{"1g.5gb", 7}})));
}

TEST(GenerateTest, NotEveryBoardCanBeBalanced) {
  RecordProperty("holds", "mig-manager.md #26");
  const auto balanced = [](ProfileCounts counts) {
    return GenerateConfiguration({{{0x2BB310DE, {}}, std::move(counts)}}).configs;
  };
  EXPECT_THAT(balanced({{"1g.12gb+me", 1}, {"2g.24gb-me", 1}, {"4g.48gb+gfx", 1}}),
              Not(Contains(Key("all-balanced"))));
  EXPECT_THAT(balanced({{"1g.12gb", 1}, {"1g.12gb-me", 3}, {"2g.24gb-me", 1}, {"4g.48gb", 1}}),
              Not(Contains(Key("all-balanced"))))
      << "RTX PRO 5000 has no plain profile of two slices";
  EXPECT_THAT(balanced({{"1g.10gb", 2}, {"2g.20gb", 1}}), Not(Contains(Key("all-balanced"))));
  EXPECT_THAT(balanced({{"1g.24gb", 4}, {"1g.24gb-me", 4}, {"2g.48gb", 2}, {"4g.96gb", 1}})
                  .at("all-balanced"),
              ElementsAre(All({}, {{"1g.24gb", 2}, {"2g.48gb", 1}})))
      << "RTX PRO 6000";
}

TEST(DiscoverTest, ComputeInstanceProfilesAreLeftOut) {
  RecordProperty("holds", "mig-manager.md #27");
  const auto boards = DiscoverProfiles({A100With40Gb(0), WithoutMig(1)});
  ASSERT_THAT(*boards, SizeIs(1));
  EXPECT_EQ(boards->at(0).counts, kA100With40.counts);
  EXPECT_EQ(boards->at(0).id, (DeviceId{0x20B010DE, {}})) << "without the subsystem";
}

TEST(DiscoverTest, NothingToFindIsSaid) {
  EXPECT_EQ(DiscoverProfiles({WithoutMig(0)}).error().message,
            "no MIG-capable devices found on the system");
  Gpu silent = WithMigOff(A100With40Gb(0));
  silent.profiles = base::Observed<std::vector<Profile>>::Unknown(
      base::Unavailable("NoProfiles", "the driver names no MIG profile"));
  EXPECT_EQ(DiscoverProfiles({silent}).error().reason, "NoProfiles");
  Gpu display = A100With40Gb(0);
  display.name = "NVIDIA DGX Display";
  EXPECT_EQ(DiscoverProfiles({display}).error().reason, "NoMigCapableGpu");
}

}  // namespace
}  // namespace pitcrew::node::mig
