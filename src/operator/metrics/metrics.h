// The operator's metrics in Prometheus' text format (reference operator-behaviour.md section
// 2).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "operator/metrics/exposition.h"

namespace pitcrew::gpu_operator {

struct DaemonSetPodCounts {
  std::string state;
  std::string name;
  std::int64_t desired = 0;
  std::int64_t updated = 0;
  std::int64_t ready = 0;
};

// Thread-safe.
class Metrics {
 public:
  Metrics();
  // `name` is one of the series of the reference.
  void Set(std::string_view name, double value);
  void Increment(std::string_view name);
  // Seconds that the last pass over one operand took.
  void SetOperandSeconds(std::string_view state, double seconds);
  // Pods of every DaemonSet of every operand, as the last pass saw them.
  void SetDaemonSets(std::vector<DaemonSetPodCounts> daemonsets);
  // `collector` adds to every rendering until what is returned goes. It is called on the thread
  // that renders, and must not call this object.
  using Collector = std::function<void(Exposition&)>;
  [[nodiscard]] std::shared_ptr<void> Collect(Collector collector);
  // What /metrics answers.
  [[nodiscard]] std::string Render() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, double, std::less<>> values_;
  std::map<std::string, double, std::less<>> operand_seconds_;
  std::vector<DaemonSetPodCounts> daemonsets_;
  std::map<std::uint64_t, Collector> collectors_;
  std::uint64_t last_collector_ = 0;
};

}  // namespace pitcrew::gpu_operator
