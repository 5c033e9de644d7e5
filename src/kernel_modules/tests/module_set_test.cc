// Modules that go together, over a tree of sysfs.
#include "kernel_modules/module_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace pitcrew::kernel_modules {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr Member kSet[] = {{.name = "top"},
                           {.name = "middle"},
                           {.name = "silent", .looks_up = "bottom"},
                           {.name = "bottom"}};

TEST(ReadLoaded, TellsWhatHoldsEach) {
  const test_support::TemporaryFolder sys;
  EXPECT_THAT(*ReadLoaded(kSet, sys.path()), IsEmpty());
  sys.Write("module/bottom/refcnt", "2\n");
  sys.Write("module/bottom/holders/middle", "");
  sys.Write("module/middle/refcnt", "0\n");
  sys.Write("module/other/refcnt", "0\n");
  const LoadedModules expected = {{"bottom", {2, {"middle"}}}, {"middle", {0, {}}}};
  EXPECT_EQ(*ReadLoaded(kSet, sys.path()), expected);
}

TEST(ReadLoaded, WhatCannotBeReadIsAnError) {
  const test_support::TemporaryFolder sys;
  sys.Write("module/middle/refcnt", "many\n");
  EXPECT_FALSE(ReadLoaded(kSet, sys.path()));
}

TEST(UsesFromOutside, AreThoseThatTheSetDoesNotExplain) {
  EXPECT_THAT(UsesFromOutside(kSet, {{"bottom", {1, {"middle"}}}, {"middle", {0, {}}}}), IsEmpty());
  EXPECT_THAT(UsesFromOutside(kSet, {{"bottom", {1, {"middle"}}}}),
              ElementsAre("bottom is held by middle"));
  EXPECT_THAT(UsesFromOutside(kSet, {{"bottom", {3, {"foreign", "middle"}}}, {"middle", {2, {}}}}),
              ElementsAre("bottom is held by foreign", "bottom has 1 uses by programs",
                          "middle has 2 uses by programs"));
}

// nvidia_fs has a use of nvidia for each symbol that it looks up, and sysfs names no holder.
TEST(UsesFromOutside, ThoseOfAMemberThatLooksSymbolsUpAreNoPrograms) {
  EXPECT_THAT(UsesFromOutside(kSet, {{"bottom", {6, {}}}, {"silent", {0, {}}}}), IsEmpty());
  EXPECT_THAT(UsesFromOutside(kSet, {{"bottom", {6, {}}}, {"silent", {1, {}}}}),
              ElementsAre("silent has 1 uses by programs"));
}

// Since 2.17.5 nvidia_fs is linked to nvidia, and is counted as others are.
TEST(UsesFromOutside, OneThatIsAHolderLooksNothingUp) {
  EXPECT_THAT(UsesFromOutside(kSet, {{"bottom", {2, {"silent"}}}, {"silent", {0, {}}}}),
              ElementsAre("bottom has 1 uses by programs"));
}

class TakeOutTest : public ::testing::Test {
 protected:
  base::Status Take() {
    const LoadedModules loaded = {{"top", {}}, {"middle", {}}, {"bottom", {}}};
    return TakeOut(kSet, loaded,
                   {.unload = [this](const std::string& module) -> base::Status {
                      if (module == busy_) return base::Fail(base::Unavailable("InUse", module));
                      done_.push_back("-" + module);
                      return {};
                    },
                    .load = [this](const std::string& module) -> base::Status {
                      if (module == lost_) return base::Fail(base::NotFound("NoFile", "no file"));
                      done_.push_back("+" + module);
                      return {};
                    }});
  }
  std::string busy_;
  std::string lost_;
  std::vector<std::string> done_;
};

TEST_F(TakeOutTest, AllGoInTheirOrder) {
  EXPECT_TRUE(Take());
  EXPECT_THAT(done_, ElementsAre("-top", "-middle", "-bottom"));
}

TEST_F(TakeOutTest, WhereOneStaysThoseBeforeItComeBack) {
  busy_ = "bottom";
  const auto stayed = Take();
  ASSERT_FALSE(stayed);
  EXPECT_EQ(stayed.error().reason, "InUse");
  EXPECT_THAT(stayed.error().message, HasSubstr("loaded again: middle, top"));
  EXPECT_THAT(done_, ElementsAre("-top", "-middle", "+middle", "+top"));
}

TEST_F(TakeOutTest, WhatCannotComeBackIsNamed) {
  busy_ = "bottom";
  lost_ = "top";
  EXPECT_THAT(
      Take().error().message,
      HasSubstr("loaded again: middle; gone, and could not be loaded again: top (no file)"));
}

}  // namespace
}  // namespace pitcrew::kernel_modules
