#include "node/device_plugin/health_monitor.h"

#include <utility>

#include "base/log.h"

namespace pitcrew::node::device_plugin {

base::Result<std::unique_ptr<HealthMonitor>> HealthMonitor::Start(
    std::shared_ptr<nvml::Library> library, const gpu::Inventory& inventory, gpu::XidPolicy policy,
    std::chrono::milliseconds probe_period) {
  TRY_ASSIGN(auto changed, base::Bell::Create());
  std::vector<std::string> gpus;
  for (const auto& device : inventory.devices) {
    if (!device.uuid.empty() && !gpu::IsSkippedDeviceName(device.name)) {
      gpus.push_back(device.uuid);
    }
  }
  const bool off = policy.IsOff();
  HealthState state(std::move(gpus), std::move(policy));
  for (const auto& device : inventory.devices) {
    if (!off && device.fault && !device.uuid.empty()) {
      state.OnProbe(device.uuid, false, base::SteadyClock::now());
    }
  }
  std::unique_ptr<HealthMonitor> monitor(
      new HealthMonitor(std::move(library), std::move(state), std::move(changed), probe_period));
  if (off) {
    base::LogInfo("GPU health is not watched: DP_DISABLE_HEALTHCHECKS turns it off");
  } else {
    monitor->thread_ = std::thread([raw = monitor.get()] { raw->Run(); });
  }
  return monitor;
}

HealthMonitor::HealthMonitor(std::shared_ptr<nvml::Library> library, HealthState state,
                             base::Bell changed, std::chrono::milliseconds probe_period)
    : library_(std::move(library)),
      changed_(std::move(changed)),
      probe_period_(probe_period),
      state_(std::move(state)) {}

HealthMonitor::~HealthMonitor() {
  stop_.Stop();
  if (thread_.joinable()) thread_.join();
}

bool HealthMonitor::IsHealthy(const OfferedDevice& device) const {
  const std::lock_guard lock(mutex_);
  return state_.IsHealthy(device);
}

bool HealthMonitor::AllFit() const {
  const std::lock_guard lock(mutex_);
  return state_.Recoverable().empty();
}

void HealthMonitor::Note(const std::string& gpu_uuid, bool changed) {
  if (!changed) return;
  std::string reason;
  {
    const std::lock_guard lock(mutex_);
    reason = gpu_uuid.empty() ? "NVML cannot name the GPU of an XID, so it may be any"
                              : state_.ReasonOf(gpu_uuid);
  }
  if (reason.empty()) {
    base::LogInfo("GPU is healthy again", {{"gpu", gpu_uuid}});
  } else {
    base::LogWarning("GPU is unhealthy", {{"gpu", gpu_uuid}, {"reason", reason}});
  }
  changed_.Ring();
}

void HealthMonitor::Run() {
  while (!stop_.token().stopped()) {
    auto events = Subscribe();
    if (events) {
      Watch(*events);
    } else if (stop_.token().WaitFor(probe_period_)) {
      return;
    }
  }
}

std::unique_ptr<nvml::EventSet> HealthMonitor::Subscribe() {
  auto events = library_->CreateEventSet();
  if (!events) {
    base::LogWarning("GPU health cannot be watched for now", events.error());
    return nullptr;
  }
  std::vector<std::string> unknown;
  for (const auto& gpu : state_.gpus()) {
    const auto registered = (*events)->Register(gpu, nvml::kHealthEvents);
    if (registered) continue;
    if (registered.error().code == base::Code::kUnsupported) {
      base::LogWarning("GPU reports no health events", registered.error(), {{"gpu", gpu}});
      continue;
    }
    bool changed = false;
    {
      const std::lock_guard lock(mutex_);
      changed = state_.OnProbe(gpu, false, base::SteadyClock::now());
    }
    Note(gpu, changed);
  }
  return *std::move(events);
}

void HealthMonitor::Watch(nvml::EventSet& events) {
  const auto token = stop_.token();
  while (true) {
    std::optional<std::chrono::milliseconds> limit;
    if (!AllFit()) limit = probe_period_;
    const auto event = events.Wait(token.fd(), limit);
    if (event) {
      bool changed = false;
      {
        const std::lock_guard lock(mutex_);
        changed = state_.OnEvent(*event, base::SteadyClock::now());
      }
      Note(event->device_uuid, changed);
      continue;
    }
    if (event.error().code == base::Code::kCancelled) return;
    if (event.error().code == base::Code::kTimeout) {
      std::vector<std::string> gpus;
      {
        const std::lock_guard lock(mutex_);
        gpus = state_.Recoverable();
      }
      if (Probe(gpus)) return;
      continue;
    }
    // Something is wrong with NVML as a whole or with a GPU: ask each one.
    base::LogWarning("waiting for GPU health events failed", event.error());
    Probe(state_.gpus());
    if (token.WaitFor(probe_period_)) return;
    Probe(state_.gpus());
    return;
  }
}

bool HealthMonitor::Probe(const std::vector<std::string>& gpus) {
  bool came_back = false;
  for (const auto& gpu : gpus) {
    const bool answers = library_->Probe(gpu).has_value();
    bool changed = false;
    {
      const std::lock_guard lock(mutex_);
      changed = state_.OnProbe(gpu, answers, base::SteadyClock::now());
    }
    came_back = came_back || (changed && answers);
    Note(gpu, changed);
  }
  return came_back;
}

}  // namespace pitcrew::node::device_plugin
