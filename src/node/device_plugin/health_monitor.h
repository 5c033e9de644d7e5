// Watches the GPUs through NVML's events, from a thread of its own.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <thread>

#include "base/bell.h"
#include "base/result.h"
#include "gpu/inventory.h"
#include "io/stop.h"
#include "node/device_plugin/health.h"
#include "nvml/nvml.h"

namespace pitcrew::node::device_plugin {

class HealthMonitor {
 public:
  // GPUs that are not fit are asked again every `probe_period`. With a policy that is off there is
  // no thread and everything stays healthy.
  static base::Result<std::unique_ptr<HealthMonitor>> Start(std::shared_ptr<nvml::Library> library,
                                                            const gpu::Inventory& inventory,
                                                            gpu::XidPolicy policy,
                                                            std::chrono::milliseconds probe_period);
  ~HealthMonitor();
  HealthMonitor(const HealthMonitor&) = delete;
  HealthMonitor& operator=(const HealthMonitor&) = delete;

  // Readable after a change, until Clear. Borrowed.
  [[nodiscard]] int fd() const { return changed_.fd(); }
  void Clear() const { changed_.Silence(); }
  // Thread-safe.
  [[nodiscard]] bool IsHealthy(const OfferedDevice& device) const;

 private:
  HealthMonitor(std::shared_ptr<nvml::Library> library, HealthState state, base::Bell changed,
                std::chrono::milliseconds probe_period);
  void Run();
  // Watches until the event set has to be made anew.
  void Watch(nvml::EventSet& events);
  std::unique_ptr<nvml::EventSet> Subscribe();
  // True when a GPU came back: its events must be registered again.
  bool Probe(const std::vector<std::string>& gpus);
  void Note(const std::string& gpu_uuid, bool changed);
  [[nodiscard]] bool AllFit() const;

  const std::shared_ptr<nvml::Library> library_;
  const base::Bell changed_;
  const std::chrono::milliseconds probe_period_;
  const io::StopSource stop_;
  mutable std::mutex mutex_;
  HealthState state_;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace pitcrew::node::device_plugin
