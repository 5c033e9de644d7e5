// Nodes with a metrics exporter whose page a test serves.
#pragma once

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "api/labels.h"
#include "driver_upgrade/metrics_note.h"
#include "support_upgrade.h"

namespace pitcrew::gpu_operator::testing {

// A port of this machine that nobody listens on.
inline int FreePort() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* any = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(::bind(socket, any, size), 0);
  EXPECT_EQ(::getsockname(socket, any, &size), 0);
  ::close(socket);
  return ntohs(address.sin_port);
}

class UpgradeMetricsTest : public UpgradeTest {
 protected:
  // One node is to be in order for an hour, before all others.
  static constexpr const char* kOneNodeFirst =
      "{maxParallelUpgrades: 0, maxUnavailable: '100%', schedule: {canary: {observeSeconds: "
      "3600}}}";
  // The operator runs, and gives this node another driver.
  void UpgradeFirst(const std::string& node) {
    ASSERT_TRUE(Settles());
    ChangeDriver("590.3.4");
    ASSERT_TRUE(Reaches(node, "upgrade-done"));
  }
  // A ready pod of the exporter, whose page is at that port of this machine.
  void AddExporterPod(const std::string& node, int port) {
    const std::string name = fmt::format("exporter-{}", port);
    CreatePod(name, node, {{"labels", {{"app", "nvidia-dcgm-exporter"}}}},
              {{"ports", Json::array({{{"name", "metrics"}, {"containerPort", port}}})}});
    Merge(kube::kPods, Own(name),
          {{"status",
            {{"phase", "Running"},
             {"podIP", "127.0.0.1"},
             {"podIPs", Json::array({{{"ip", "127.0.0.1"}}})},
             {"conditions", Json::array({{{"type", "Ready"}, {"status", "True"}}})}}}},
          "status");
  }
  void DeleteExporterPod(int port) {
    ASSERT_TRUE(client_->Delete(kube::kPods, Own(fmt::format("exporter-{}", port))));
  }
  [[nodiscard]] std::optional<driver_upgrade::MetricsNote> NoteOf(const std::string& node) const {
    const auto live = client_->Get(kube::kNodes, Cluster(node));
    if (!live) return std::nullopt;
    return driver_upgrade::ReadMetricsNote(
        codec::FindString(*live, {"metadata", "annotations", api::kUpgradeMetricsAnnotation}));
  }
  [[nodiscard]] std::string UpgradeCondition() const {
    return Condition("cluster-policy", "DriverUpgradeReady");
  }
};

}  // namespace pitcrew::gpu_operator::testing
