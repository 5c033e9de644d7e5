// The node status exporter: status files, a real API server, simulated PCI devices and driver.
#include "node/validator/node_status.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "api/qualification.h"
#include "apiserver/api_server.h"
#include "io/http_client.h"
#include "io/http_server.h"
#include "tests/support/patience.h"
#include "tests/support/simulated_node.h"

namespace pitcrew::node::validator {
namespace {

using namespace std::chrono_literals;
using ::pitcrew::testing::ApiServer;
using ::testing::AllOf;
using ::testing::HasSubstr;

class NodeStatusTest : public ::testing::Test {
 protected:
  void SetUp() override {
    client_ = ApiServer::Shared().MakeClient();
    options_.component = "metrics";
    options_.node_name = "status-" + std::to_string(++counter_);
    options_.namespace_name = "default";
    options_.kubeconfig = ApiServer::Shared().kubeconfig().string();
    options_.output_folder = node_.folder().path() / "validations";
    options_.pci_devices = node_.pci_devices();
    options_.host_seen_at = node_.folder().path() / "host";
    options_.driver_seen_at = node_.driver_root();
    std::filesystem::create_directories(options_.output_folder);
    std::filesystem::create_directories(options_.host_seen_at);
  }
  void TearDown() override {
    if (!thread_.joinable()) return;
    stop_.Stop();
    thread_.join();
    EXPECT_TRUE(result_) << result_.error().ToString();
  }
  void MakeNode(const codec::Json& capacity) {
    const codec::Json node = {{"metadata", {{"name", options_.node_name}}}};
    ASSERT_TRUE(client_->Create(kube::kNodes, node));
    kube::WriteOptions as;
    as.subresource = "status";
    const codec::Json patch = {{"status", {{"capacity", capacity}}}};
    const auto patched =
        client_->Patch(kube::kNodes, {"", options_.node_name}, kube::PatchType::kMerge, patch, as);
    ASSERT_TRUE(patched) << patched.error().ToString();
  }
  void Start() {
    status_ = std::make_unique<NodeStatus>(options_, cluster_.emplace(options_.kubeconfig));
    thread_ = std::thread([this] { result_ = status_->Run(stop_.token()); });
    while (status_->port() == 0) std::this_thread::yield();
  }
  std::string AwaitPage(const ::testing::Matcher<std::string>& wanted) const {
    std::string page;
    for (const auto until = base::Deadline::After(test_support::kPatience); !until.passed();) {
      io::HttpRequest request;
      request.url = fmt::format("http://127.0.0.1:{}/metrics", status_->port());
      page = io::HttpClient::Create().value()->Send(request, {}).value().body;
      if (wanted.Matches(page)) return page;
      std::this_thread::yield();
    }
    ADD_FAILURE() << "never as wanted:\n" << page;
    return page;
  }
  [[nodiscard]] std::string Line(const std::string& name, int value) const {
    return fmt::format("\n{}{{node=\"{}\"}} {}\n", name, options_.node_name, value);
  }

  static int counter_;
  test_support::SimulatedNode node_{"gpus: [{profile: H100-80, count: 2}]"};
  Options options_;
  std::shared_ptr<kube::Client> client_;
  std::optional<Cluster> cluster_;
  io::StopSource stop_;
  std::unique_ptr<NodeStatus> status_;
  std::thread thread_;
  base::Status result_;
};
int NodeStatusTest::counter_ = 0;

TEST_F(NodeStatusTest, TenMetricsTellHowFarTheNodeIs) {
  RecordProperty("holds", "validator.md #30");
  MakeNode({{"nvidia.com/gpu", "2"}, {"nvidia.com/mig-1g.10gb", "7"}, {"cpu", "64"}});
  Start();
  const auto page =
      AwaitPage(AllOf(HasSubstr(Line("gpu_operator_node_device_plugin_devices_total", 9)),
                      HasSubstr(Line("gpu_operator_nvidia_pci_devices_total", 2))));
  for (const auto* name : {"gpu_operator_node_driver_ready", "gpu_operator_node_toolkit_ready",
                           "gpu_operator_node_plugin_ready", "gpu_operator_node_cuda_ready",
                           "gpu_operator_node_driver_validation",
                           "gpu_operator_node_driver_validation_last_success_ts_seconds"}) {
    EXPECT_THAT(page, HasSubstr(Line(name, 0)));
  }
  EXPECT_THAT(page, HasSubstr("gpu_operator_node_metrics_ready_ts_seconds{node="));
  EXPECT_THAT(page,
              HasSubstr("gpu_operator_node_device_plugin_validation_last_success_ts_seconds"));
}

TEST_F(NodeStatusTest, AStatusFileIsSeenWhenItComesAndWhenItGoes) {
  MakeNode({{"cpu", "1"}});
  Start();
  const StatusFolder files(options_.output_folder);
  AwaitPage(HasSubstr(Line("gpu_operator_node_toolkit_ready", 0)));
  ASSERT_TRUE(files.Write(kToolkitReady));
  AwaitPage(HasSubstr(Line("gpu_operator_node_toolkit_ready", 1)));
  ASSERT_TRUE(files.Remove(kToolkitReady));
  AwaitPage(HasSubstr(Line("gpu_operator_node_toolkit_ready", 0)));
  // The folder itself, too.
  std::filesystem::remove_all(options_.output_folder);
  ASSERT_TRUE(files.Prepare(false));
  ASSERT_TRUE(files.Write(kDriverReady));
  AwaitPage(HasSubstr(Line("gpu_operator_node_driver_ready", 1)));
}

TEST_F(NodeStatusTest, WhatTheNodeTellsOfItsQualification) {
  MakeNode({{"cpu", "1"}});
  api::Qualification told;
  told.state = api::QualificationState::kFailed;
  told.time = "2026-11-23T08:00:00Z";
  told.gpus = {{.index = 0, .uuid = "GPU-a", .name = "H100", .passed = true, .failures = {}},
               {.index = 1, .uuid = "GPU-b", .name = "H100", .passed = false, .failures = {"x"}}};
  const codec::Json patch = {
      {"metadata", {{"annotations", {{std::string(api::kQualification), api::ToText(told)}}}}}};
  ASSERT_TRUE(
      client_->Patch(kube::kNodes, {"", options_.node_name}, kube::PatchType::kMerge, patch));
  Start();
  const auto series = [&](const std::string& rest) { return HasSubstr(options_.node_name + rest); };
  AwaitPage(AllOf(HasSubstr("gpu_operator_node_qualification_state{node="),
                  series("\",state=\"failed\"} 1\n"), series("\",gpu=\"0\",UUID=\"GPU-a\"} 1\n"),
                  series("\",gpu=\"1\",UUID=\"GPU-b\"} 0\n")));
}

TEST_F(NodeStatusTest, ANodeWithoutAQualificationTellsOfNone) {
  MakeNode({{"cpu", "1"}});
  Start();
  const auto page = AwaitPage(HasSubstr(Line("gpu_operator_nvidia_pci_devices_total", 2)));
  EXPECT_THAT(page, ::testing::Not(HasSubstr("gpu_operator_node_qualification_state{")));
}

TEST_F(NodeStatusTest, ANodeThatCannotBeReadHasNoNumberOfDevices) {
  options_.pci_devices = node_.folder().path() / "none";
  Start();
  AwaitPage(AllOf(HasSubstr(Line("gpu_operator_node_device_plugin_devices_total", -1)),
                  HasSubstr(Line("gpu_operator_nvidia_pci_devices_total", -1))));
}

// The driver goes on working while nobody tells whose it is.
TEST_F(NodeStatusTest, ADriverIsNotInvalidForAnApiServerThatIsAway) {
  node_.InstallDriver();
  std::atomic<bool> away = false;
  std::atomic<int> refused = 0;
  const auto server = io::HttpServer::StartWith(
      "127.0.0.1:0", [&](const io::HttpServerRequest& request) -> io::HttpAnswer {
        if (!request.path.ends_with("/daemonsets")) return {.status = 404, .body = "{}"};
        if (!away) return {.content_type = "application/json", .body = "{\"items\": []}"};
        ++refused;
        return {.status = 403, .content_type = "application/json", .body = "{}"};
      });
  ASSERT_TRUE(server) << server.error().ToString();
  options_.kubeconfig =
      node_.folder()
          .Write("kubeconfig",
                 fmt::format(
                     "{{current-context: c, contexts: [{{name: c, context: {{cluster: c}}}}],"
                     " clusters: [{{name: c, cluster: {{server: \"http://127.0.0.1:{}\"}}}}]}}",
                     (*server)->port()))
          .string();
  options_.driver_period = 10ms;
  Start();
  const auto valid = Line("gpu_operator_node_driver_validation", 1);
  AwaitPage(HasSubstr(valid));
  away = true;
  // With the second question the first answer has been taken.
  const auto until = base::Deadline::After(test_support::kPatience);
  while (refused < 2 && !until.passed()) std::this_thread::yield();
  ASSERT_GE(refused, 2);
  EXPECT_THAT(AwaitPage(HasSubstr("gpu_operator_node_driver_validation")), HasSubstr(valid));
}

}  // namespace
}  // namespace pitcrew::node::validator
