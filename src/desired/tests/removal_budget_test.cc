// The memory of removals: what is too much at once is too much within an hour as well.
#include "desired/removal_budget.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace pitcrew::desired {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using Time = RemovalBudget::Time;

constexpr Time kStart{std::chrono::hours(100)};

// A fleet whose nodes lose their labels as far as the budget lets them.
struct Fleet {
  RemovalBudget budget;
  std::size_t gpu_nodes;
  std::size_t lost = 0;

  // `count` more nodes have lost their GPU; whether their labels went.
  bool Lose(std::size_t count, Time now) {
    if (budget.Holds(gpu_nodes, count, now)) return false;
    for (std::size_t i = 0; i < count; ++i) {
      const std::string node = fmt::format("gpu-{}", lost++);
      budget.Spend(node, now);
      budget.Confirm(node);
      --gpu_nodes;
    }
    return true;
  }
};

TEST(RemovalBudget, HoldsWhatIsTooMuchAtOnce) {
  const RemovalBudget budget;
  EXPECT_FALSE(budget.Holds(100, 0, kStart));
  EXPECT_FALSE(budget.Holds(100, 10, kStart));
  EXPECT_TRUE(budget.Holds(100, 11, kStart));
  EXPECT_FALSE(budget.Holds(2, 2, kStart));
  EXPECT_TRUE(budget.Holds(3, 3, kStart));
}

// Nine of a hundred every 15 s would leave none within minutes.
TEST(RemovalBudget, AWaveOfSmallLossesIsHeldAtATenth) {
  Fleet fleet{.budget = RemovalBudget(), .gpu_nodes = 100};
  Time now = kStart;
  for (int wave = 0; wave < 100; ++wave) {
    fleet.Lose(9, now);
    now += seconds(15);
  }
  EXPECT_EQ(fleet.lost, 9U);
  EXPECT_FALSE(fleet.Lose(2, now));
  EXPECT_TRUE(fleet.Lose(1, now));  // the tenth
  EXPECT_FALSE(fleet.Lose(1, now));
  EXPECT_FALSE(fleet.budget.Holds(10, 0, now)) << "nothing is held where nothing is lost";
}

TEST(RemovalBudget, LossesCountForAnHour) {
  Fleet fleet{.budget = RemovalBudget(), .gpu_nodes = 20};
  ASSERT_TRUE(fleet.Lose(1, kStart));
  ASSERT_TRUE(fleet.Lose(1, kStart + minutes(10)));
  EXPECT_FALSE(fleet.Lose(1, kStart + minutes(11)));
  EXPECT_EQ(fleet.budget.NextRelease(kStart + minutes(11)), kStart + minutes(60));
  EXPECT_FALSE(fleet.Lose(1, kStart + minutes(60) - seconds(1)));
  EXPECT_EQ(fleet.budget.Spent(kStart + minutes(60)), 1U);
  EXPECT_TRUE(fleet.Lose(1, kStart + minutes(60)));
  EXPECT_EQ(fleet.budget.NextRelease(kStart + minutes(60)), kStart + minutes(70));
  EXPECT_EQ(fleet.budget.NextRelease(kStart + minutes(120)), std::nullopt);
}

// A node that is being patched is among those that lose their GPU until the watch tells: counted
// once.
TEST(RemovalBudget, ANodeCountsOnce) {
  RemovalBudget budget;
  for (const char* node : {"a", "b"}) budget.Spend(node, kStart);
  EXPECT_EQ(budget.Spent(kStart), 0U);
  EXPECT_FALSE(budget.Holds(5, 2, kStart));
  budget.Confirm("a");
  budget.Confirm("a");
  budget.Confirm("somebody else");
  EXPECT_EQ(budget.Spent(kStart), 1U);
  EXPECT_FALSE(budget.Holds(4, 1, kStart));
  EXPECT_TRUE(budget.Holds(4, 2, kStart));
}

TEST(RemovalBudget, TellsWhyRemovalsAreHeld) {
  RemovalBudget budget;
  EXPECT_EQ(budget.WhyHeld(100, 10, false, kStart), "");
  EXPECT_EQ(budget.WhyHeld(100, 11, true, kStart), "");
  const std::string at_once = budget.WhyHeld(100, 11, false, kStart);
  EXPECT_TRUE(at_once.starts_with("11 of 100 GPU nodes have lost the PCI labels")) << at_once;
  EXPECT_NE(at_once.find("nvidia.com/gpu-operator.allow-mass-removal=true"), std::string::npos);
  EXPECT_EQ(at_once.find("within an hour"), std::string::npos);
  for (const char* node : {"a", "b"}) {
    budget.Spend(node, kStart);
    budget.Confirm(node);
  }
  const std::string after_others = budget.WhyHeld(18, 1, false, kStart);
  EXPECT_TRUE(after_others.starts_with("1 of 18 GPU nodes")) << after_others;
  EXPECT_NE(after_others.find("after 2 others within an hour"), std::string::npos);
  EXPECT_NE(after_others.find("because so many in so short a time"), std::string::npos);
  EXPECT_NE(at_once.find("because so many at once"), std::string::npos);
}

TEST(RemovalBudget, AGpuThatIsBackWasNoLoss) {
  Fleet fleet{.budget = RemovalBudget(), .gpu_nodes = 10};
  ASSERT_TRUE(fleet.Lose(2, kStart));
  EXPECT_FALSE(fleet.Lose(1, kStart));
  fleet.budget.Return("gpu-0");
  EXPECT_TRUE(fleet.Lose(1, kStart));
}

}  // namespace
}  // namespace pitcrew::desired
