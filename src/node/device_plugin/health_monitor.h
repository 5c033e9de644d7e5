// Watches the GPUs through NVML's events, from a thread of its own.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/bell.h"
#include "base/result.h"
#include "gpu/inventory.h"
#include "io/stop.h"
#include "node/device_plugin/health.h"
#include "nvml/nvml.h"

namespace pitcrew::node::device_plugin {

// Something about a GPU that people should know.
struct HealthChange {
  std::string gpu_uuid;
  bool healthy = false;
  std::string reason;     // why it is unfit; empty when it is fit again
  std::uint64_t xid = 0;  // the XID that was reported now; 0: none
  bool operator==(const HealthChange&) const = default;
};

// One for the life of the process: what is known about a GPU outlives libraries and layouts.
class HealthMonitor {
 public:
  // GPUs that are not fit are asked again every `probe_period`. With a policy that is off
  // everything stays healthy. `known`: what was remembered.
  static base::Result<std::unique_ptr<HealthMonitor>> Create(
      gpu::XidPolicy policy, std::chrono::milliseconds probe_period,
      std::map<std::string, GpuHealth> known);
  ~HealthMonitor();
  HealthMonitor(const HealthMonitor&) = delete;
  HealthMonitor& operator=(const HealthMonitor&) = delete;

  // Watches these GPUs through this library from now on. Returns when it is known which of them are
  // fit. The same again does nothing but ask those that could not be read.
  void Follow(const std::shared_ptr<nvml::Library>& library, const gpu::Inventory& inventory);
  // Lets go of the library; what is known stays.
  void Rest();
  // The same, and no GPU can be reached: until Follow finds that it can.
  void Lose(const base::Error& error);

  // Readable after a change, until TakeChanges. Borrowed.
  [[nodiscard]] int fd() const { return changed_.fd(); }
  std::vector<HealthChange> TakeChanges();
  // Thread-safe, as are the next two.
  [[nodiscard]] bool IsHealthy(const OfferedDevice& device) const;
  [[nodiscard]] std::map<std::string, GpuHealth> known() const;
  [[nodiscard]] std::string ReasonOf(const std::string& gpu_uuid) const;

 private:
  // Of one library and set of GPUs.
  struct Watch {
    std::shared_ptr<nvml::Library> library;
    std::vector<std::string> gpus;
    io::StopSource stop;
    std::thread thread;
  };

  HealthMonitor(HealthState state, bool off, base::Bell changed,
                std::chrono::milliseconds probe_period);
  void Run(nvml::Library& library, const io::StopToken& stop);
  // Watches until the event set has to be made anew.
  void WaitForEvents(nvml::Library& library, nvml::EventSet& events, const io::StopToken& stop);
  // The events that wait there, until there are none or the set is broken.
  void TakeRest(nvml::Library& library, nvml::EventSet& events);
  std::unique_ptr<nvml::EventSet> Subscribe(nvml::Library& library);
  // True when a GPU came back: its events must be registered again.
  bool Probe(nvml::Library& library, const std::vector<std::string>& gpus,
             const io::StopToken& stop);
  void Take(nvml::Library& library, const nvml::Event& event);
  // Notes what changes when `alter` is called on the state.
  template <class Alter>
  bool Change(const std::string& gpu_uuid, std::uint64_t xid, Alter alter);
  [[nodiscard]] std::vector<std::string> Unfit() const;

  const bool off_;
  const base::Bell changed_;
  const std::chrono::milliseconds probe_period_;
  mutable std::mutex mutex_;
  HealthState state_;                  // guarded by mutex_
  std::vector<HealthChange> changes_;  // guarded by mutex_
  std::unique_ptr<Watch> watch_;
};

}  // namespace pitcrew::node::device_plugin
