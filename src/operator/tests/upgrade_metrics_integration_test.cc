// What the metrics of the first nodes say counts (driver.upgradePolicy.schedule.canary.metrics), on
// a real kube-apiserver.
#include "io/http_server.h"
#include "support_metrics.h"

namespace pitcrew::gpu_operator::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

// Of the metrics exporter on a node with two GPUs (metrics-exporter.md section 4.3).
constexpr const char* kPage =
    "# HELP DCGM_FI_DEV_GPU_TEMP GPU temperature (in C).\n"
    "# TYPE DCGM_FI_DEV_GPU_TEMP gauge\n"
    "DCGM_FI_DEV_GPU_TEMP{gpu=\"0\",UUID=\"GPU-a\",pci_bus_id=\"00000000:19:00.0\",device="
    "\"nvidia0\","
    "modelName=\"NVIDIA H100 80GB HBM3\",hostname=\"a\"} 35\n"
    "DCGM_FI_DEV_GPU_TEMP{gpu=\"1\",UUID=\"GPU-b\",pci_bus_id=\"00000000:3B:00.0\",device="
    "\"nvidia1\","
    "modelName=\"NVIDIA H100 80GB HBM3\",hostname=\"a\"} 36\n";

TEST_F(UpgradeMetricsTest, AGpuThatIsMissingIsSeenUntilThatNodeIsSkipped) {
  const auto exporter = *io::HttpServer::Start(
      "127.0.0.1:0", {{"/metrics", [] { return io::HttpAnswer{.body = kPage}; }}});
  const auto first = AddNode("a");
  const auto second = AddNode("b");
  Merge(kube::kNodes, Cluster(first), {{"status", {{"capacity", {{"nvidia.com/gpu", "3"}}}}}},
        "status");
  AddExporterPod(first, exporter->port());
  CreateUpgradePolicy(kOneNodeFirst);
  RunningOperator running(name_space_);
  ASSERT_NO_FATAL_FAILURE(UpgradeFirst(first));
  EXPECT_TRUE(Eventually([&] {
    return UpgradeCondition() == "False UpgradeStopped: node " + first +
                                     ", one of the first 1, is not in order with its new driver: "
                                     "the metrics exporter knows of 2 GPUs, and the node offers 3";
  })) << UpgradeCondition();
  EXPECT_EQ(StateOf(second), "upgrade-required");
  EXPECT_TRUE(Eventually([&] {
    return running.Value(R"(gpu_operator_driver_upgrades_held{driver="",reason="canary"})") == 1;
  }));
  SetNode(first, {{"metadata", {{"labels", {{std::string(api::kUpgradeSkip), "true"}}}}}});
  EXPECT_TRUE(Reaches(second, "upgrade-done"));
}

TEST_F(UpgradeMetricsTest, MetricsThatCannotBeReadKeepNobody) {
  const auto first = AddNode("a");
  const auto second = AddNode("b");
  AddExporterPod(first, FreePort());
  CreateUpgradePolicy(
      "{maxParallelUpgrades: 0, maxUnavailable: '100%', schedule: {canary: {observeSeconds: 1}}}");
  RunningOperator running(name_space_);
  ASSERT_TRUE(Settles());
  ChangeDriver("590.3.4");
  ASSERT_TRUE(Reaches(first, "upgrade-done"));
  EXPECT_TRUE(Reaches(second, "upgrade-done"));
  ASSERT_TRUE(NoteOf(first));
  EXPECT_THAT(NoteOf(first)->unknown, HasSubstr("127.0.0.1"));
  EXPECT_GE(NoteOf(first)->looked, NoteOf(first)->finished + std::chrono::seconds(1));
  EXPECT_TRUE(Eventually([&] {
    return ::testing::Value(
        EventsOf(first),
        Contains(HasSubstr("The metrics of the new driver's GPUs cannot be read")));
  }));
}

TEST_F(UpgradeMetricsTest, NobodyLooksWhereItIsSwitchedOff) {
  const auto first = AddNode("a");
  AddNode("b");
  CreateUpgradePolicy(
      "{maxParallelUpgrades: 0, maxUnavailable: '100%', schedule: {canary: {metrics: false}}}");
  RunningOperator running(name_space_);
  ASSERT_TRUE(Settles());
  ChangeDriver("590.3.4");
  EXPECT_TRUE(Settles());
  EXPECT_EQ(NoteOf(first), std::nullopt);
}

}  // namespace
}  // namespace pitcrew::gpu_operator::testing
