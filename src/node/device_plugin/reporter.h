// Tells people what happens to a node's devices: log, Events on the Node, metrics.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/result.h"
#include "node/device_plugin/health_monitor.h"
#include "node/device_plugin/resources.h"
#include "node/device_plugin/settings.h"
#include "node/kubelet_plugin/reporting.h"

namespace pitcrew::node::device_plugin {

// Used by one thread. Events are best effort: no API server holds the plugin up.
class Reporter {
 public:
  // Metrics are served where `options.metrics_address` is set (an error when it cannot be bound),
  // Events sent where `options.node_name` is.
  static base::Result<std::unique_ptr<Reporter>> Create(const Options& options);

  void GpuChanged(const HealthChange& change);
  // GPUs that could not be read, by what they are called, with the reason; those that could since
  // are told about, too.
  void Unreadable(const std::map<std::string, std::string>& gpus);
  // A configuration was not taken, and the one before goes on; and one was taken.
  void SettingsRefused(const base::Error& error);
  void SettingsTaken();
  void Listed(const std::string& resource, std::size_t healthy, std::size_t unhealthy);
  void Withdrawn(const std::string& resource);

  // Where metrics are served; 0: nowhere.
  [[nodiscard]] int metrics_port() const { return reporting_.metrics_port(); }
  // Waits until all Events are sent or dropped; for tests.
  void Flush() { reporting_.Flush(); }

 private:
  Reporter() = default;
  base::Status MakeMetrics();

  kubelet_plugin::Reporting reporting_;
  prom::Gauge* gpu_healthy_ = nullptr;
  prom::Counter* xids_ = nullptr;
  prom::Gauge* devices_ = nullptr;
  prom::Counter* refused_ = nullptr;
  std::map<std::string, std::string> unreadable_;
  std::string refused_last_;  // why; empty: the last configuration was taken
};

}  // namespace pitcrew::node::device_plugin
