// How a device plugin tells people of its node's devices: metrics, and Events on the Node. What is
// told is the plugin's own.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "base/result.h"
#include "io/http_server.h"
#include "kube/events.h"
#include "node/own_node/own_node.h"
#include "prom/process.h"
#include "prom/registry.h"

namespace pitcrew::node::kubelet_plugin {

// Used by one thread. Events are best effort: no API server holds the plugin up.
class Reporting {
 public:
  Reporting() : collecting_(registry_.Collect(prom::ExposeProcess)) {}
  Reporting(const Reporting&) = delete;
  Reporting& operator=(const Reporting&) = delete;

  // The process's own metrics are in it.
  [[nodiscard]] prom::Registry& registry() { return registry_; }
  // Serves the registry; an empty address: nowhere. An error when it cannot be bound.
  base::Status ServeMetrics(const std::string& address);
  // Where metrics are served; 0: nowhere.
  [[nodiscard]] int metrics_port() const { return server_ ? server_->port() : 0; }

  // Without it, without a node's name, or when the API server cannot be found, which is logged, no
  // Events are sent.
  void SendEvents(const std::filesystem::path& kubeconfig, own_node::Identity identity);
  void Record(kube::EventType type, const char* reason, std::string message);
  // Waits until all Events are sent or dropped; for the end.
  void Flush();

 private:
  std::unique_ptr<own_node::OwnNode> node_;
  prom::Registry registry_;
  std::shared_ptr<void> collecting_;
  std::unique_ptr<io::HttpServer> server_;
};

}  // namespace pitcrew::node::kubelet_plugin
