// What the log says of nodes that wait for their turn, on a real kube-apiserver.
#include <algorithm>
#include <string>

#include "api/labels.h"
#include "base/strings.h"
#include "support_upgrade.h"

namespace pitcrew::gpu_operator::testing {
namespace {

using UpgradeLogTest = UpgradeTest;

// However often the limits are looked at.
TEST_F(UpgradeLogTest, WhyNoOtherNodeBeginsIsLoggedOnce) {
  const auto first = AddNode("a");
  const auto waiting = AddNode("b");
  CreatePod("job", first, {{"labels", {{"kind", "job"}}}}, Json::object());
  CreateUpgradePolicy(
      "{maxParallelUpgrades: 1, maxUnavailable: '100%', waitForCompletion: {podSelector: "
      "kind=job}}");
  ::testing::internal::CaptureStderr();
  RunningOperator running(name_space_);
  EXPECT_TRUE(Settles());
  ChangeDriver("590.3.4");
  EXPECT_TRUE(Reaches(first, "wait-for-jobs-required"));
  EXPECT_TRUE(Reaches(waiting, "upgrade-required"));
  const auto reconciles = [&] {
    return running.Value(
        "controller_runtime_reconcile_total{controller=\"driver-upgrades\",result=\"success\"}");
  };
  for (const char* value : {"no", "false", "never"}) {
    const double before = reconciles();
    SetNode(waiting, {{"metadata", {{"labels", {{std::string(api::kUpgradeSkip), value}}}}}});
    // Of the node, and of the limits.
    EXPECT_TRUE(Eventually([&] { return reconciles() >= before + 2; }));
  }
  EXPECT_TRUE(client_->Delete(kube::kPods, Own("job")));
  EXPECT_TRUE(Settles());
  running.Stop();
  const std::string log = ::testing::internal::GetCapturedStderr();
  const auto lines = base::Split(log, '\n');
  const auto logged = std::ranges::count_if(lines, [](const std::string& line) {
    return line.contains("no other driver is upgraded now") &&
           line.contains("1 nodes are being upgraded, and maxParallelUpgrades is 1");
  });
  EXPECT_EQ(logged, 1) << log;
}

}  // namespace
}  // namespace pitcrew::gpu_operator::testing
