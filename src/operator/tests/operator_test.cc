// Settings, write decisions and the operator's own metrics.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/metrics/metrics.h"
#include "operator/roll_out/rollout.h"
#include "operator/settings.h"

namespace pitcrew::gpu_operator {
namespace {

using ::testing::HasSubstr;

base::Result<std::optional<Settings>> Read(std::vector<const char*> arguments,
                                           const std::map<std::string, std::string>& env = {}) {
  arguments.insert(arguments.begin(), "gpu-operator");
  return ReadSettings(static_cast<int>(arguments.size()), arguments.data(),
                      [&](const std::string& name) -> std::optional<std::string> {
                        const auto found = env.find(name);
                        if (found == env.end()) return std::nullopt;
                        return found->second;
                      });
}

TEST(Settings, Defaults) {
  RecordProperty("holds", "operator-behaviour.md #1, #2");
  const auto settings = Read({}, {{"OPERATOR_NAMESPACE", "gpu"}, {"GFD_IMAGE", "a/b:c"}});
  ASSERT_TRUE(settings && *settings);
  EXPECT_EQ((*settings)->metrics_address, ":8080");
  EXPECT_EQ((*settings)->health_address, ":8081");
  EXPECT_FALSE((*settings)->leader_elect);
  EXPECT_EQ((*settings)->operator_namespace, "gpu");
  EXPECT_EQ((*settings)->images.at("GFD_IMAGE"), "a/b:c");
}

// operator-behaviour.md #3, #4 and the chart's command line; Go's forms of flags.
TEST(Settings, Flags) {
  RecordProperty("holds", "operator-behaviour.md #3, #4");
  RecordProperty("holds", "operator-behaviour.md #3, #4");
  const auto settings =
      Read({"-leader-elect", "--leader-lease-renew-deadline=60s", "-zap-time-encoding=epoch",
            "--zap-log-level", "debug", "-metrics-bind-address", ":9"});
  ASSERT_TRUE(settings && *settings) << settings.error().ToString();
  EXPECT_TRUE((*settings)->leader_elect);
  EXPECT_EQ((*settings)->renew_deadline, std::chrono::seconds(60));
  EXPECT_EQ((*settings)->log.level, base::LogLevel::kDebug);
  EXPECT_EQ((*settings)->log.format, base::LogFormat::kJson);
  EXPECT_EQ((*settings)->metrics_address, ":9");
  EXPECT_TRUE(Read({"--zap-time-encoding=nanos"}));
  EXPECT_EQ((*Read({"--zap-devel"}))->log.format, base::LogFormat::kText);
  for (const char* wrong : {"--zap-time-encoding=nano", "--zap-log-level=loud", "--zap-encoder=x",
                            "--leader-lease-renew-deadline=soon", "--unknown"}) {
    const auto refused = Read({wrong});
    ASSERT_FALSE(refused) << wrong;
    EXPECT_EQ(refused.error().code, base::Code::kInvalid);
  }
}

// Off unless it is asked for: the chart gives rights for it only then.
TEST(Settings, ManagingOfKubeVirt) {
  const auto off = Read({});
  ASSERT_TRUE(off && *off);
  EXPECT_FALSE((*off)->manage_kubevirt);
  EXPECT_EQ((*off)->pci_ids, "/usr/pci.ids");
  const auto on = Read({"--manage-kubevirt", "--pci-ids=/other"});
  ASSERT_TRUE(on && *on);
  EXPECT_TRUE((*on)->manage_kubevirt);
  EXPECT_EQ((*on)->pci_ids, "/other");
}

TEST(WriteDecision, NothingWithoutADifference) {
  const auto now = base::SteadyClock::now();
  desired::OwnedObject live;
  live.hash = "1";
  live.fingerprint = 7;
  live.version = 100;
  const Written written{.hash = "1", .fingerprint = 7, .version = 100, .at = now};
  EXPECT_EQ(Decide("1", &live, &written, now), Step::kNothing);
  EXPECT_EQ(Decide("1", &live, nullptr, now), Step::kVerify);  // after a restart
  EXPECT_EQ(Decide("2", &live, &written, now), Step::kApply);  // the policy changed
  EXPECT_EQ(Decide("1", nullptr, nullptr, now), Step::kApply);
  // Deleted and not seen yet, or written and not seen yet.
  EXPECT_EQ(Decide("1", nullptr, &written, now), Step::kPending);
  EXPECT_EQ(Decide("1", nullptr, &written, now + kEchoTimeout), Step::kApply);
  // Somebody else changed a field of ours.
  desired::OwnedObject touched = live;
  touched.fingerprint = 8;
  touched.version = 101;
  EXPECT_EQ(Decide("1", &touched, &written, now), Step::kVerify);
  // The watch still shows what was before our write.
  desired::OwnedObject old = live;
  old.hash = "0";
  old.version = 99;
  EXPECT_EQ(Decide("1", &old, &written, now), Step::kPending);
}

// All 17 series, without labels.
TEST(MetricsTest, AllSeriesOfTheReference) {
  RecordProperty("holds", "operator-behaviour.md #5");
  Metrics metrics;
  metrics.Set("gpu_operator_reconciliation_status", 1);
  const std::string text = metrics.Render();
  constexpr std::string_view kSeries[] = {"gpu_nodes_total",
                                          "reconciliation_last_success_ts_seconds",
                                          "reconciliation_status",
                                          "reconciliation_total",
                                          "reconciliation_failed_total",
                                          "reconciliation_has_nfd_labels",
                                          "openshift_driver_toolkit_enabled",
                                          "openshift_driver_toolkit_nfd_too_old",
                                          "openshift_driver_toolkit_imagestream_missing",
                                          "openshift_driver_toolkit_rhcos_tags_missing",
                                          "openshift_driver_toolkit_imagestream_broken",
                                          "driver_auto_upgrade_enabled",
                                          "nodes_upgrades_in_progress",
                                          "nodes_upgrades_done",
                                          "nodes_upgrades_failed",
                                          "nodes_upgrades_available",
                                          "nodes_upgrades_pending"};
  for (const auto name : kSeries) {
    EXPECT_THAT(text, HasSubstr("\ngpu_operator_" + std::string(name) + " ")) << name;
  }
  EXPECT_THAT(text, HasSubstr("\ngpu_operator_reconciliation_status 1\n"));
}

}  // namespace
}  // namespace pitcrew::gpu_operator
