// Tells people what virtual machines can have of a node: log, Events on the Node, metrics.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "node/kubelet_plugin/reporting.h"
#include "node/sandbox_device_plugin/offers.h"
#include "node/sandbox_device_plugin/settings.h"

namespace pitcrew::node::sandbox_device_plugin {

// Used by one thread. Events are best effort: no API server holds the plugin up.
class Reporter {
 public:
  // Metrics are served where `options.metrics_address` is set (an error when it cannot be bound),
  // Events sent where `options.node_name` is.
  static base::Result<std::unique_ptr<Reporter>> Create(const Options& options);

  // What became of the offers; nothing is told twice.
  void Changed(const Resources& before, const Resources& now);
  // Sentences that hold now; those that held the last time are not told again.
  void Warn(const std::vector<std::string>& warnings);

  // Where metrics are served; 0: nowhere.
  [[nodiscard]] int metrics_port() const { return reporting_.metrics_port(); }
  // Waits until all Events are sent or dropped; for the end.
  void Flush() { reporting_.Flush(); }

 private:
  Reporter() = default;
  base::Status MakeMetrics();
  void Compare(const std::string& resource, const std::vector<OfferedDevice>& before,
               const std::vector<OfferedDevice>& now);

  kubelet_plugin::Reporting reporting_;
  prom::Gauge* devices_ = nullptr;
  std::vector<std::string> warned_;
};

}  // namespace pitcrew::node::sandbox_device_plugin
