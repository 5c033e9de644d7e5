// The operator's metrics in Prometheus' text format (reference operator-behaviour.md section
// 2).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "prom/registry.h"

namespace pitcrew::gpu_operator {

struct DaemonSetPodCounts {
  std::string state;
  std::string name;
  std::int64_t desired = 0;
  std::int64_t updated = 0;
  std::int64_t ready = 0;
};

// Nodes whose upgrade waits until a person does something.
struct HeldUpgrades {
  std::string driver;  // name of the NVIDIADriver; "": the ClusterPolicy's driver
  std::string reason;
  int nodes = 0;
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
  // Of every pool and every reason.
  void SetHeldUpgrades(std::vector<HeldUpgrades> held);
  // See prom::Registry.
  [[nodiscard]] std::shared_ptr<void> Collect(prom::Registry::Collector collector) {
    return registry_.Collect(std::move(collector));
  }
  // What /metrics answers.
  [[nodiscard]] std::string Render() const { return registry_.Render(); }

 private:
  void ExposeDaemonSets(prom::Exposition& exposition) const;
  void ExposeHeldUpgrades(prom::Exposition& exposition) const;

  prom::Registry registry_;
  std::map<std::string, prom::Gauge*, std::less<>> gauges_;
  std::map<std::string, prom::Counter*, std::less<>> counters_;
  prom::Gauge* operand_seconds_;
  mutable std::mutex mutex_;
  std::vector<DaemonSetPodCounts> daemonsets_;
  std::vector<HeldUpgrades> held_upgrades_;
  std::shared_ptr<void> collecting_;  // goes before what it reads
};

}  // namespace pitcrew::gpu_operator
