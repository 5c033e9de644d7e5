// What people learn: Events on a real API server, and metrics.
#include "node/sandbox_device_plugin/reporter.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apiserver/api_server.h"
#include "codec/json.h"
#include "io/http_client.h"
#include "kube/client.h"

namespace pitcrew::node::sandbox_device_plugin {
namespace {

using ::pitcrew::testing::ApiServer;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

OfferedDevice Device(const std::string& id, const std::string& unfit = "") {
  return {.id = id, .numa_node = 0, .functions = {}, .unfit = unfit};
}

class ReporterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    client_ = ApiServer::Shared().MakeClient();
    options_.node_name = "sandbox-reporter-" + std::to_string(++counter_);
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

TEST_F(ReporterTest, TellsWhatVirtualMachinesCanHave) {
  const Resources first = {{"nvidia.com/A", {Device("0000:65:00.0"), Device("0000:66:00.0")}}};
  reporter_->Changed({}, first);
  EXPECT_THAT(Events(),
              Contains("SandboxDevicesChanged: nvidia.com/A has 2 devices for virtual machines "
                       "now, 0 before (1)"));
  const Resources second = {
      {"nvidia.com/A",
       {Device("0000:65:00.0", "/dev/vfio/1 is not there"), Device("0000:66:00.0")}}};
  reporter_->Changed(first, second);
  reporter_->Changed(second, second);
  EXPECT_THAT(Events(), Contains("SandboxDeviceUnhealthy: device 0000:65:00.0 of nvidia.com/A gets "
                                 "to no virtual machine: /dev/vfio/1 is not there (1)"));
  EXPECT_THAT(Metrics(), AllOf(HasSubstr("pitcrew_sandbox_device_plugin_devices{resource="
                                         "\"nvidia.com/A\",health=\"healthy\"} 1"),
                               HasSubstr("health=\"unhealthy\"} 1")));
  reporter_->Changed(second, first);
  EXPECT_THAT(Events(), Contains(HasSubstr("SandboxDeviceHealthy: device 0000:65:00.0")));
  reporter_->Changed(first, {});
  EXPECT_THAT(Events(), Contains(HasSubstr("nvidia.com/A has 0 devices")));
  EXPECT_THAT(Metrics(), Not(HasSubstr("nvidia.com/A")));
}

TEST_F(ReporterTest, WarnsOnceOfWhatHolds) {
  reporter_->Warn({"one"});
  reporter_->Warn({"one", "two"});
  EXPECT_THAT(Events(), SizeIs(2));
  reporter_->Warn({});
  reporter_->Warn({"one"});
  EXPECT_THAT(Events(), Contains("SandboxDevicesWarning: one (2)"));
}

TEST(Reporter, WithoutNodeAndAddressOnlyLogs) {
  const auto reporter = Reporter::Create({});
  ASSERT_TRUE(reporter);
  EXPECT_EQ((*reporter)->metrics_port(), 0);
  (*reporter)->Changed({}, {{"nvidia.com/A", {Device("1")}}});
  Options bad;
  bad.metrics_address = "nowhere";
  EXPECT_EQ(Reporter::Create(bad).error().code, base::Code::kInvalid);
}

}  // namespace
}  // namespace pitcrew::node::sandbox_device_plugin
