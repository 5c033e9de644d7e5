// Which changes of a policy or a driver the upgrades have to look at (driver-lifecycle.md 2.2).
#include "operator/upgrade/pools.h"

#include <gtest/gtest.h>

#include <functional>

namespace pitcrew::gpu_operator {
namespace {

using desired::DriverView;
using desired::PolicyView;

template <class View>
using Change = std::pair<std::string, std::function<void(View&)>>;

template <class View>
void ExpectEachSeen(const std::vector<Change<View>>& changes) {
  for (const auto& [what, change] : changes) {
    const View before;
    View after;
    change(after);
    EXPECT_FALSE(IsSameForUpgrades(before, after)) << what;
    EXPECT_TRUE(IsSameForUpgrades(after, after)) << what;
  }
}

TEST(UpgradePools, EachFieldOfAPolicyThatUpgradesGoByIsSeen) {
  ExpectEachSeen<PolicyView>({
      {"limit",
       [](PolicyView& view) { view.policy.driver.upgrade_policy.max_parallel_upgrades = 7; }},
      {"driver objects", [](PolicyView& view) { view.policy.driver.use_nvidia_driver_crd = true; }},
      {"deletion", [](PolicyView& view) { view.deleting = true; }},
      {"whose the drivers are",
       [](PolicyView& view) {
         view.policy.problems.push_back({.path = "spec.driver", .message = "must be an object"});
       }},
      {"an annotation that cannot be used",
       [](PolicyView& view) {
         view.policy.problems.push_back(
             {.path = "metadata.annotations", .message = "must be a time"});
       }},
      {"qualification",
       [](PolicyView& view) { view.policy.validator.qualification_required = true; }},
  });
  PolicyView other;
  other.version = 12;
  other.status = {{"state", "ready"}};
  other.policy.gfd.image.version = "v9";
  EXPECT_TRUE(IsSameForUpgrades(PolicyView(), other)) << "upgrades do not go by those";
}

TEST(UpgradePools, EachFieldOfADriverThatUpgradesGoByIsSeen) {
  ExpectEachSeen<DriverView>({
      {"limit",
       [](DriverView& view) { view.driver.driver.upgrade_policy.max_parallel_upgrades = 7; }},
      {"automatic",
       [](DriverView& view) { view.driver.driver.upgrade_policy.auto_upgrade = true; }},
      {"another object of the name", [](DriverView& view) { view.driver.uid = "2"; }},
      {"selector", [](DriverView& view) { view.driver.node_selector.emplace(); }},
      {"default", [](DriverView& view) { view.driver.is_default = true; }},
      {"deletion", [](DriverView& view) { view.deleting = true; }},
  });
  DriverView other;
  other.version = 12;
  other.driver.generation = 3;
  EXPECT_TRUE(IsSameForUpgrades(DriverView(), other)) << "upgrades do not go by those";
}

}  // namespace
}  // namespace pitcrew::gpu_operator
