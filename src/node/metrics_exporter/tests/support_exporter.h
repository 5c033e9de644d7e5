// The whole exporter in this process, on simulated GPUs.
#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/deadline.h"
#include "base/file.h"
#include "io/http_client.h"
#include "io/stop.h"
#include "node/metrics_exporter/exporter.h"
#include "tests/support/patience.h"
#include "tests/support/simulated_node.h"

namespace pitcrew::node::metrics_exporter {

inline constexpr std::string_view kCounters =
    "DCGM_FI_DEV_GPU_TEMP, gauge, temperature\n"
    "DCGM_FI_DEV_FB_USED, gauge, memory\n"
    "DCGM_FI_DEV_XID_ERRORS, gauge, XID\n"
    "DCGM_FI_DRIVER_VERSION, label, version\n";

class ExporterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    io::SignalReceiver::Create({SIGHUP}).value();
    options_.counter_file = counters();
    options_.address = "127.0.0.1:0";
    options_.interval = std::chrono::milliseconds(100);
    options_.node_name = "node-a";
    options_.nvml_limit = std::chrono::seconds(3);
    Write(kCounters);
  }
  void TearDown() override { Stop(); }

  [[nodiscard]] std::filesystem::path counters() const { return folder_.path() / "counters.csv"; }
  void Write(std::string_view text) { ASSERT_TRUE(base::WriteFileAtomically(counters(), text)); }

  void Start(const std::string& gpus) {
    node_ = std::make_unique<test_support::SimulatedNode>(gpus);
    node_->InstallDriver();
    options_.driver_roots = {node_->driver_root()};
    options_.pod_resources = node_->kubelet_socket();
    Run();
  }
  void Run() {
    stop_ = std::make_unique<io::StopSource>();
    reload_.emplace(io::SignalReceiver::Create({SIGUSR1}).value());
    exporter_ = std::make_unique<Exporter>(options_, *reload_, stop_->token());
    ended_ = false;
    thread_ = std::thread([this] {
      result_ = exporter_->Run();
      ended_ = true;
    });
    while (exporter_->port() == 0 && !ended_) std::this_thread::yield();
  }
  void Stop() {
    if (!thread_.joinable()) return;
    stop_->Stop();
    thread_.join();
    EXPECT_TRUE(result_) << result_.error().ToString();
    exporter_.reset();
  }

  [[nodiscard]] io::HttpResponse Get(const std::string& path,
                                     std::vector<io::HttpHeader> headers = {}) const {
    io::HttpRequest request;
    request.headers = std::move(headers);
    request.url = fmt::format("http://127.0.0.1:{}{}", exporter_->port(), path);
    auto answer = io::HttpClient::Create().value()->Send(request, {});
    EXPECT_TRUE(answer) << answer.error().ToString();
    return answer ? *std::move(answer) : io::HttpResponse();
  }
  [[nodiscard]] std::string Metrics() const { return Get("/metrics").body; }
  // Scrapes until the page is as wanted; the test's own limit ends it.
  template <class Matcher>
  std::string AwaitPage(Matcher matcher) const {
    std::string page;
    const auto until = base::Deadline::After(test_support::kPatience);
    while (!until.passed()) {
      page = Metrics();
      if (::testing::Matches(matcher)(page)) return page;
      std::this_thread::yield();
    }
    ADD_FAILURE() << "never as wanted:\n" << page;
    return page;
  }

  test_support::TemporaryFolder folder_;
  Options options_;
  std::unique_ptr<test_support::SimulatedNode> node_;
  std::unique_ptr<io::StopSource> stop_;
  std::optional<io::SignalReceiver> reload_;
  std::unique_ptr<Exporter> exporter_;
  std::thread thread_;
  std::atomic<bool> ended_ = false;
  base::Status result_;
};

}  // namespace pitcrew::node::metrics_exporter
