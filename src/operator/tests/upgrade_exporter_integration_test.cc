// What happens to the GPUs of the first nodes keeps the others: on a real kube-apiserver, with the
// metrics exporter itself over simulated GPUs.
#include <chrono>
#include <memory>

#include "io/http_client.h"
#include "support_metrics.h"
#include "tests/support/folders.h"
#include "tests/support/program.h"
#include "tests/support/simulated_node.h"

namespace pitcrew::gpu_operator::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// The metrics exporter of a node with two GPUs.
class Exporter {
 public:
  explicit Exporter(const test_support::SimulatedNode& node) : port_(FreePort()) {
    program_.emplace(
        "metrics_exporter_program", std::vector<std::string>{},
        std::vector<std::string>{
            "PATH=/usr/bin:/bin",
            "LD_LIBRARY_PATH=" + (node.driver_root() / "usr/lib/x86_64-linux-gnu").string(),
            fmt::format("DCGM_EXPORTER_LISTEN=127.0.0.1:{}", port_),
            "DCGM_EXPORTER_COLLECTORS=" + test_support::SourceFolder().string() +
                "/deploy/counters/dcp-metrics-included.csv",
            "DCGM_EXPORTER_INTERVAL=100", "NODE_NAME=a"});
  }
  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] std::string Page() const {
    io::HttpRequest request;
    request.url = fmt::format("http://127.0.0.1:{}/metrics", port_);
    const auto answer = io::HttpClient::Create().value()->Send(std::move(request), {});
    return answer ? answer->body : "";
  }

 private:
  int port_;
  std::optional<test_support::Program> program_;
};

TEST_F(UpgradeMetricsTest, AnXidOnTheFirstNodeKeepsTheOthers) {
  const test_support::SimulatedNode gpus("gpus: [{profile: H100-80, count: 2}]");
  gpus.InstallDriver();
  auto exporter = std::make_unique<Exporter>(gpus);
  const int port = exporter->port();
  const auto first = AddNode("a");
  const auto second = AddNode("b");
  CreateUpgradePolicy(kOneNodeFirst);
  RunningOperator running(name_space_);
  ASSERT_NO_FATAL_FAILURE(UpgradeFirst(first));
  // The exporter is there after its driver only.
  ASSERT_TRUE(Eventually([&] { return NoteOf(first) && !NoteOf(first)->unknown.empty(); }));
  ASSERT_TRUE(Eventually([&] { return exporter->Page().contains("DCGM_FI_DEV_GPU_TEMP{"); }));
  AddExporterPod(first, port);
  ASSERT_TRUE(Eventually([&] { return NoteOf(first)->first.has_value(); }));
  EXPECT_THAT(NoteOf(first)->first->gpus, SizeIs(2));
  EXPECT_EQ(NoteOf(first)->against, "");
  EXPECT_EQ(NoteOf(first)->unknown, "");

  gpus.Gpu({"xid", "1", "79"});
  ASSERT_TRUE(Eventually([&] { return exporter->Page().contains("DCGM_FI_DEV_XID_ERRORS{"); }));
  // The time is up in two seconds: after the first look.
  const driver_upgrade::MetricsNote begin = *NoteOf(first);
  const auto passed =
      std::chrono::duration_cast<std::chrono::seconds>(begin.looked - begin.finished);
  MergeSpec(
      "cluster-policy",
      fmt::format("driver: {{upgradePolicy: {{schedule: {{canary: {{observeSeconds: {}}}}}}}}}",
                  passed.count() + 2));
  EXPECT_TRUE(Eventually([&] {
    return UpgradeCondition().starts_with("False UpgradeStopped: node " + first +
                                          ", one of the first 1, is not in order with its new "
                                          "driver: GPU GPU-") &&
           UpgradeCondition().ends_with(" has had XID 79");
  })) << UpgradeCondition();
  EXPECT_TRUE(Eventually([&] {
    return ::testing::Value(EventsOf(first),
                            Contains(HasSubstr("The metrics speak against the new driver")));
  }));
  EXPECT_EQ(StateOf(second), "upgrade-required");

  // Somebody mends it: the exporter starts anew, and knows of no XID.
  DeleteExporterPod(port);
  exporter = std::make_unique<Exporter>(gpus);
  ASSERT_TRUE(Eventually([&] { return exporter->Page().contains("DCGM_FI_DEV_GPU_TEMP{"); }));
  EXPECT_FALSE(exporter->Page().contains("DCGM_FI_DEV_XID_ERRORS{"));
  AddExporterPod(first, exporter->port());
  EXPECT_TRUE(Reaches(second, "upgrade-done"));
  EXPECT_TRUE(Eventually([&] { return UpgradeCondition().empty(); }));
  EXPECT_EQ(NoteOf(second), std::nullopt) << "it is none of the first";
}

}  // namespace
}  // namespace pitcrew::gpu_operator::testing
