// What people learn of a node's devices: Events on a real API server, and metrics.
#include "node/device_plugin/reporter.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apiserver/api_server.h"
#include "codec/json.h"
#include "io/http_client.h"
#include "kube/client.h"

namespace pitcrew::node::device_plugin {
namespace {

using ::pitcrew::testing::ApiServer;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

class ReporterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    client_ = ApiServer::Shared().MakeClient();
    options_.node_name = "reporter-" + std::to_string(++counter_);
    options_.pod_name = "plugin-1";
    options_.kubeconfig = ApiServer::Shared().kubeconfig().string();
    options_.metrics_address = "127.0.0.1:0";
    auto reporter = Reporter::Create(options_);
    ASSERT_TRUE(reporter) << reporter.error().ToString();
    reporter_ = *std::move(reporter);
  }
  // "Reason: message (times)" of each Event on the node.
  [[nodiscard]] std::vector<std::string> Events() const {
    reporter_->Flush();
    kube::ListOptions options;
    options.field_selector = "involvedObject.name=" + options_.node_name;
    const auto events = client_->List(kube::kEvents, "default", options);
    EXPECT_TRUE(events) << events.error().ToString();
    std::vector<std::string> texts;
    for (const auto& event : events->items) {
      texts.push_back(fmt::format("{}: {} ({})", codec::FindString(event, {"reason"}),
                                  codec::FindString(event, {"message"}), event.value("count", 0)));
    }
    return texts;
  }
  [[nodiscard]] std::string Metrics() const {
    io::HttpRequest request;
    request.url = fmt::format("http://127.0.0.1:{}/metrics", reporter_->metrics_port());
    const auto answer = io::HttpClient::Create().value()->Send(request, {});
    EXPECT_TRUE(answer) << answer.error().ToString();
    return answer ? answer->body : "";
  }

  static int counter_;
  Options options_;
  std::shared_ptr<kube::Client> client_;
  std::unique_ptr<Reporter> reporter_;
};
int ReporterTest::counter_ = 0;

TEST_F(ReporterTest, TellsOfEachChangeOfAGpu) {
  reporter_->GpuChanged({.gpu_uuid = "GPU-a",
                         .healthy = false,
                         .reason = "XID 48 (double-bit ECC error)",
                         .xid = 48});
  EXPECT_THAT(Events(), Contains(AllOf(HasSubstr("GpuUnhealthy: GPU GPU-a"),
                                       HasSubstr("double-bit ECC error"))));
  EXPECT_THAT(
      Metrics(),
      AllOf(HasSubstr("pitcrew_device_plugin_gpu_healthy{gpu=\"GPU-a\"} 0"),
            HasSubstr("pitcrew_device_plugin_xid_errors_total{gpu=\"GPU-a\",xid=\"48\"} 1")));
  reporter_->GpuChanged({.gpu_uuid = "GPU-a", .healthy = true, .reason = "", .xid = 0});
  EXPECT_THAT(Events(), Contains(HasSubstr("GpuHealthy: GPU GPU-a")));
  EXPECT_THAT(Metrics(), HasSubstr("pitcrew_device_plugin_gpu_healthy{gpu=\"GPU-a\"} 1"));
}

TEST_F(ReporterTest, TellsOnceOfAGpuThatCannotBeRead) {
  for (int times = 0; times < 3; ++times) reporter_->Unreadable({{"GPU-a", "it hangs"}});
  EXPECT_THAT(Events(), Contains(AllOf(HasSubstr("GpuUnreadable"), HasSubstr("it hangs (1)"))));
  reporter_->Unreadable({});
  EXPECT_THAT(Events(), Contains(HasSubstr("GpuReadable")));
}

TEST_F(ReporterTest, TellsOfARefusedConfigurationAndOfItsEnd) {
  reporter_->SettingsTaken();
  EXPECT_THAT(Events(), ::testing::IsEmpty()) << "nothing was wrong";
  const auto error = base::Invalid("BadSettings", "migStrategy is magic");
  reporter_->SettingsRefused(error);
  reporter_->SettingsRefused(error);
  EXPECT_THAT(Events(), Contains(AllOf(HasSubstr("DevicePluginConfigRefused"),
                                       HasSubstr("migStrategy is magic (1)"))));
  EXPECT_THAT(Metrics(), HasSubstr("pitcrew_device_plugin_refused_configurations_total 1"));
  reporter_->SettingsTaken();
  EXPECT_THAT(Events(), Contains(HasSubstr("DevicePluginConfigTaken")));
}

TEST_F(ReporterTest, CountsWhatTheKubeletIsToldOf) {
  reporter_->Listed("nvidia.com/gpu", 7, 1);
  EXPECT_THAT(
      Metrics(),
      AllOf(HasSubstr(
                "pitcrew_device_plugin_devices{resource=\"nvidia.com/gpu\",health=\"healthy\"} 7"),
            HasSubstr("pitcrew_device_plugin_devices{resource=\"nvidia.com/gpu\","
                      "health=\"unhealthy\"} 1")));
  reporter_->Withdrawn("nvidia.com/gpu");
  EXPECT_THAT(Metrics(), Not(HasSubstr("nvidia.com/gpu")));
}

TEST(Reporter, WithoutNodeAndAddressOnlyLogs) {
  const auto reporter = Reporter::Create({});
  ASSERT_TRUE(reporter);
  EXPECT_EQ((*reporter)->metrics_port(), 0);
  (*reporter)->GpuChanged({.gpu_uuid = "GPU-a", .healthy = true, .reason = "", .xid = 0});
  Options bad;
  bad.metrics_address = "nowhere";
  EXPECT_EQ(Reporter::Create(bad).error().code, base::Code::kInvalid);
}

}  // namespace
}  // namespace pitcrew::node::device_plugin
