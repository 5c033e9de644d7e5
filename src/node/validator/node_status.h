// The node status exporter: how far a node's GPU stack is, as metrics (validator.md 7).
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "io/file_watcher.h"
#include "io/http_server.h"
#include "io/stop.h"
#include "node/validator/components.h"
#include "node/validator/options.h"
#include "prom/registry.h"

namespace pitcrew::node::validator {

class NodeStatus {
 public:
  // `cluster` is asked for the node's devices. Both must outlive this object.
  NodeStatus(const Options& options, Cluster& cluster);

  // Serves until the stop, which is no error.
  base::Status Run(const io::StopToken& stop);
  // 0 until it listens. From any thread.
  [[nodiscard]] int port() const { return port_; }

 private:
  base::Status MakeMetrics();
  base::Status Listen();
  void LookAtFiles();
  void WatchFolder();
  void CountDevices(const io::StopToken& stop);
  void TellQualification(const codec::Json& node);
  void CountPciDevices();
  void CheckTheDriver(const io::StopToken& stop);
  void Set(prom::Gauge* gauge, double value);

  const Options& options_;
  Cluster& cluster_;
  prom::Registry registry_;
  std::shared_ptr<void> collecting_;
  std::unique_ptr<io::HttpServer> server_;
  std::optional<io::FileWatcher> watcher_;
  prom::Gauge* started_ = nullptr;
  prom::Gauge* driver_ready_ = nullptr;
  prom::Gauge* toolkit_ready_ = nullptr;
  prom::Gauge* plugin_ready_ = nullptr;
  prom::Gauge* cuda_ready_ = nullptr;
  prom::Gauge* driver_valid_ = nullptr;
  prom::Gauge* driver_valid_at_ = nullptr;
  prom::Gauge* devices_ = nullptr;
  prom::Gauge* devices_at_ = nullptr;
  prom::Gauge* pci_devices_ = nullptr;
  // Of the node's annotation; without series where it tells of no qualification.
  prom::Gauge* qualification_state_ = nullptr;
  prom::Gauge* qualification_at_ = nullptr;
  prom::Gauge* qualified_gpus_ = nullptr;
  std::atomic<int> port_ = 0;
};

}  // namespace pitcrew::node::validator
