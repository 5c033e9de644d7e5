// The exposition of metrics: Prometheus' text format, and upstream's names.
#include "operator/metrics/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/strings.h"
#include "operator/metrics/collectors.h"
#include "prom/process.h"

namespace pitcrew::gpu_operator {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Every family has one HELP and one TYPE line, and its samples stand together below them.
void ExpectWellFormed(const std::string& text) {
  std::set<std::string> families;
  std::string family;
  ASSERT_TRUE(text.ends_with('\n'));
  for (const std::string& line : base::Split(text.substr(0, text.size() - 1), '\n')) {
    if (line.starts_with("# HELP ")) {
      family = line.substr(7, line.find(' ', 7) - 7);
      EXPECT_TRUE(families.insert(family).second) << family << " occurs twice";
    } else if (line.starts_with("# TYPE ")) {
      EXPECT_TRUE(line.starts_with("# TYPE " + family + " ")) << line;
    } else {
      const std::string name = line.substr(0, line.find_first_of("{ "));
      EXPECT_TRUE(name == family || name == family + "_bucket" || name == family + "_sum" ||
                  name == family + "_count")
          << line << " under " << family;
      EXPECT_TRUE(base::ParseDouble(line.substr(line.rfind(' ') + 1))) << line;
    }
  }
}

TEST(MetricsTest, AWatchIsUpWhileItsStoreIsComplete) {
  const auto up = [](const kube::InformerStatus& status) {
    Metrics metrics;
    const auto collecting = metrics.Collect(
        [&](prom::Exposition& exposition) { ExposeWatch("nodes", status, 0, exposition); });
    const std::string text = metrics.Render();
    const std::string series = "gpu_operator_watch_up{resource=\"nodes\"} ";
    return text.substr(text.find(series) + series.size(), 1);
  };
  const base::Error trouble = base::Unavailable("Away", "nobody answers");
  EXPECT_EQ(up({.synced = true}), "1");
  EXPECT_EQ(up({.synced = true, .trouble = trouble}), "0");
  EXPECT_EQ(up({.synced = false}), "0");
  EXPECT_EQ(up({.synced = false, .trouble = trouble}), "0");
}

// operator-behaviour.md section 2: controller-runtime's, client-go's and the process' metrics.
TEST(MetricsTest, NamesThatUpstreamsLibrariesExport) {
  Metrics metrics;
  kube::ControllerStatistics statistics{.name = "nodes",
                                        .workers = 2,
                                        .active = 1,
                                        .counts = {.succeeded = 3, .requeued = 1, .failed = 2},
                                        .bounds = {0.1},
                                        .durations = {4, 1},
                                        .seconds = 0.5,
                                        .queue = {.depth = 7, .adds = 9, .retries = 2}};
  auto collecting = metrics.Collect([&](prom::Exposition& exposition) {
    ExposeController(statistics, exposition);
    statistics.name = "clusterpolicies";
    ExposeController(statistics, exposition);
    statistics.name = "nodes";
    ExposeWatch("nodes", {.synced = true, .watching = true, .lists = 1, .watches = 4}, 10,
                exposition);
    ExposeRequests({{{"get", 200}, 5},
                    {{"list", 200}, 2},
                    {{"apply", 409}, 1},
                    {{"watch", 0}, 1},
                    {{"create", 201}, 3},
                    {{"update", 200}, 4},
                    {{"patch", 200}, 6},
                    {{"apply", 200}, 8},
                    {{"delete", 200}, 9}},
                   "https://api", exposition);
    ExposeLeader("53822513.nvidia.com", true, exposition);
    prom::ExposeProcess(exposition);
  });
  metrics.SetDaemonSets(
      {{.state = "state-driver", .name = "d", .desired = 5, .updated = 4, .ready = 3}});
  metrics.SetOperandSeconds("state-driver", 0.25);
  metrics.SetHeldUpgrades({{.driver = "", .reason = "image", .nodes = 2},
                           {.driver = "training", .reason = "canary", .nodes = 0}});
  const std::string text = metrics.Render();
  ExpectWellFormed(text);
  for (const char* line :
       {"controller_runtime_reconcile_total{controller=\"nodes\",result=\"success\"} 2",
        "controller_runtime_reconcile_total{controller=\"nodes\",result=\"requeue_after\"} 1",
        "controller_runtime_reconcile_total{controller=\"nodes\",result=\"error\"} 2",
        "controller_runtime_reconcile_errors_total{controller=\"nodes\"} 2",
        "controller_runtime_terminal_reconcile_errors_total{controller=\"nodes\"} 0",
        "controller_runtime_reconcile_panics_total{controller=\"nodes\"} 0",
        "controller_runtime_reconcile_timeouts_total{controller=\"nodes\"} 0",
        "controller_runtime_reconcile_time_seconds_bucket{controller=\"nodes\",le=\"+Inf\"} 5",
        "controller_runtime_max_concurrent_reconciles{controller=\"nodes\"} 2",
        "controller_runtime_active_workers{controller=\"nodes\"} 1",
        "workqueue_depth{controller=\"nodes\",name=\"nodes\"} 7",
        "workqueue_adds_total{controller=\"nodes\",name=\"nodes\"} 9",
        "workqueue_retries_total{controller=\"nodes\",name=\"nodes\"} 2",
        "rest_client_requests_total{code=\"200\",host=\"https://api\",method=\"GET\"} 7",
        "rest_client_requests_total{code=\"201\",host=\"https://api\",method=\"POST\"} 3",
        "rest_client_requests_total{code=\"200\",host=\"https://api\",method=\"PUT\"} 4",
        "rest_client_requests_total{code=\"200\",host=\"https://api\",method=\"PATCH\"} 14",
        "rest_client_requests_total{code=\"200\",host=\"https://api\",method=\"DELETE\"} 9",
        "rest_client_requests_total{code=\"409\",host=\"https://api\",method=\"PATCH\"} 1",
        "rest_client_requests_total{code=\"<error>\",host=\"https://api\",method=\"GET\"} 1",
        "gpu_operator_api_requests_total{verb=\"list\",code=\"200\"} 2",
        "gpu_operator_watch_openings_total{resource=\"nodes\"} 4",
        "gpu_operator_store_objects{resource=\"nodes\"} 10",
        "leader_election_master_status{name=\"53822513.nvidia.com\"} 1",
        "leader_election_slowpath_total{name=\"53822513.nvidia.com\"} 0",
        "gpu_operator_operand_pods_ready{state=\"state-driver\",daemonset=\"d\"} 3",
        "gpu_operator_driver_upgrades_held{driver=\"\",reason=\"image\"} 2",
        "gpu_operator_driver_upgrades_held{driver=\"training\",reason=\"canary\"} 0"}) {
    EXPECT_THAT(text, HasSubstr("\n" + std::string(line) + "\n"));
  }
  for (const char* name : {"process_cpu_seconds_total", "process_resident_memory_bytes",
                           "process_open_fds", "process_max_fds", "process_start_time_seconds"}) {
    EXPECT_THAT(text, HasSubstr("\n" + std::string(name) + " "));
  }
  collecting.reset();
  EXPECT_THAT(metrics.Render(), Not(HasSubstr("workqueue")));
}

}  // namespace
}  // namespace pitcrew::gpu_operator
