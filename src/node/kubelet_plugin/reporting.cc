#include "node/kubelet_plugin/reporting.h"

#include <utility>

#include "base/log.h"

namespace pitcrew::node::kubelet_plugin {
namespace {

constexpr const char* kMetricsType = "text/plain; version=0.0.4; charset=utf-8";

}  // namespace

base::Status Reporting::ServeMetrics(const std::string& address) {
  if (address.empty()) return {};
  const auto page = [this] {
    return io::HttpAnswer{.status = 200, .content_type = kMetricsType, .body = registry_.Render()};
  };
  TRY_ASSIGN(server_, io::HttpServer::Start(address, {{"/metrics", page}}));
  return {};
}

void Reporting::SendEvents(const std::filesystem::path& kubeconfig, own_node::Identity identity) {
  if (identity.node_name.empty()) {
    base::LogInfo("no Events are sent: NODE_NAME is not set");
    return;
  }
  auto node = own_node::OwnNode::Open(kubeconfig, std::move(identity));
  if (node) {
    node_ = *std::move(node);
  } else {
    base::LogWarning("no Events are sent", node.error());
  }
}

void Reporting::Record(kube::EventType type, const char* reason, std::string message) {
  if (node_) node_->Record(type, reason, std::move(message));
}

void Reporting::Flush() {
  if (node_) node_->FlushEvents();
}

}  // namespace pitcrew::node::kubelet_plugin
