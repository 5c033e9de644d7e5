// The operator's own metrics in Prometheus' text format (reference operator-behaviour.md section
// 2).
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "kube/client.h"

namespace pitcrew::gpu_operator {

// Thread-safe.
class Metrics {
 public:
  Metrics();
  // `name` is one of the series of the reference.
  void Set(std::string_view name, double value);
  void Increment(std::string_view name);
  // Seconds that the last pass over one operand took.
  void SetOperandSeconds(std::string_view state, double seconds);
  // What /metrics answers.
  [[nodiscard]] std::string Render(const kube::Client::RequestCounts& requests) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, double, std::less<>> values_;
  std::map<std::string, double, std::less<>> operand_seconds_;
};

}  // namespace pitcrew::gpu_operator
