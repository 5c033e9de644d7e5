#include "node/device_plugin/health_monitor.h"

#include <utility>

#include "base/log.h"

namespace pitcrew::node::device_plugin {

base::Result<std::unique_ptr<HealthMonitor>> HealthMonitor::Create(
    gpu::XidPolicy policy, std::chrono::milliseconds probe_period,
    std::map<std::string, GpuHealth> known) {
  TRY_ASSIGN(auto changed, base::Bell::Create());
  const bool off = policy.IsOff();
  HealthState state(std::move(policy));
  if (off) {
    base::LogInfo("GPU health is not watched: DP_DISABLE_HEALTHCHECKS turns it off");
  } else {
    state.Restore(std::move(known));
  }
  return std::unique_ptr<HealthMonitor>(
      new HealthMonitor(std::move(state), off, std::move(changed), probe_period));
}

HealthMonitor::HealthMonitor(HealthState state, bool off, base::Bell changed,
                             std::chrono::milliseconds probe_period)
    : off_(off),
      changed_(std::move(changed)),
      probe_period_(probe_period),
      state_(std::move(state)) {}

HealthMonitor::~HealthMonitor() { Rest(); }

void HealthMonitor::Rest() {
  if (!watch_) return;
  watch_->stop.Stop();
  if (watch_->thread.joinable()) watch_->thread.join();
  watch_.reset();
}

void HealthMonitor::Lose(const base::Error& error) {
  Rest();
  if (off_) return;
  for (const auto& gpu : state_.watched()) {
    Change(gpu, 0, [&](HealthState& state) {
      return state.OnSilence(gpu, error, base::SteadyClock::now());
    });
  }
}

void HealthMonitor::Follow(const std::shared_ptr<nvml::Library>& library,
                           const gpu::Inventory& inventory) {
  if (off_) return;
  std::vector<std::string> gpus;
  std::vector<std::string> faulty;
  for (const auto& device : inventory.devices) {
    if (device.uuid.empty() || gpu::IsSkippedDeviceName(device.name)) continue;
    gpus.push_back(device.uuid);
    if (device.fault) faulty.push_back(device.uuid);
  }
  if (watch_ && watch_->library == library && watch_->gpus == gpus) {
    Probe(*library, faulty, {});
    return;
  }
  Rest();
  {
    const std::lock_guard lock(mutex_);
    state_.Watch(gpus);
  }
  Probe(*library, gpus, {});
  watch_ = std::make_unique<Watch>();
  watch_->library = library;
  watch_->gpus = std::move(gpus);
  watch_->thread =
      std::thread([this, library, stop = watch_->stop.token()] { Run(*library, stop); });
}

std::vector<HealthChange> HealthMonitor::TakeChanges() {
  const std::lock_guard lock(mutex_);
  changed_.Silence();
  return std::exchange(changes_, {});
}

bool HealthMonitor::IsHealthy(const OfferedDevice& device) const {
  const std::lock_guard lock(mutex_);
  return state_.IsHealthy(device);
}

std::map<std::string, GpuHealth> HealthMonitor::known() const {
  const std::lock_guard lock(mutex_);
  return state_.known();
}

std::string HealthMonitor::ReasonOf(const std::string& gpu_uuid) const {
  const std::lock_guard lock(mutex_);
  return state_.ReasonOf(gpu_uuid);
}

std::vector<std::string> HealthMonitor::Unfit() const {
  const std::lock_guard lock(mutex_);
  return state_.Unfit();
}

template <class Alter>
bool HealthMonitor::Change(const std::string& gpu_uuid, std::uint64_t xid, Alter alter) {
  const std::lock_guard lock(mutex_);
  if (!alter(state_)) return false;
  // An XID that may be any GPU's is told of each.
  auto gpus = gpu_uuid.empty() ? state_.watched() : std::vector<std::string>{gpu_uuid};
  for (auto& gpu : gpus) {
    auto reason = state_.ReasonOf(gpu);
    if (reason.empty()) {
      base::LogInfo("GPU is healthy again", {{"gpu", gpu}});
    } else {
      base::LogWarning("GPU is unhealthy", {{"gpu", gpu}, {"reason", reason}});
    }
    const bool healthy = reason.empty();
    changes_.push_back(
        {.gpu_uuid = std::move(gpu), .healthy = healthy, .reason = std::move(reason), .xid = xid});
  }
  changed_.Ring();
  return true;
}

void HealthMonitor::Run(nvml::Library& library, const io::StopToken& stop) {
  std::unique_ptr<nvml::EventSet> before;
  while (!stop.stopped()) {
    auto events = Subscribe(library);
    if (!events) {
      if (stop.WaitFor(probe_period_)) return;
      continue;
    }
    // What came while nobody waited stands in the former set; from here on it stands in both.
    if (before) TakeRest(library, *before);
    before.reset();
    WaitForEvents(library, *events, stop);
    before = std::move(events);
  }
}

void HealthMonitor::TakeRest(nvml::Library& library, nvml::EventSet& events) {
  while (const auto event = events.Wait(-1, std::chrono::milliseconds(0))) Take(library, *event);
}

std::unique_ptr<nvml::EventSet> HealthMonitor::Subscribe(nvml::Library& library) {
  auto events = library.CreateEventSet();
  if (!events) {
    base::LogWarning("GPU health cannot be watched for now", events.error());
    return nullptr;
  }
  // Only this thread's owner changes what is watched, and only while the thread does not run.
  for (const auto& gpu : state_.watched()) {
    const auto registered = (*events)->Register(gpu, nvml::kHealthEvents);
    if (registered) continue;
    if (registered.error().code == base::Code::kUnsupported) {
      base::LogWarning("GPU reports no health events", registered.error(), {{"gpu", gpu}});
      continue;
    }
    Change(gpu, 0, [&](HealthState& state) {
      return state.OnSilence(gpu, registered.error(), base::SteadyClock::now());
    });
  }
  return *std::move(events);
}

void HealthMonitor::Take(nvml::Library& library, const nvml::Event& event) {
  const bool changed = Change(event.device_uuid, event.data, [&](HealthState& state) {
    return state.OnEvent(event, base::SteadyClock::now());
  });
  if (!changed || event.device_uuid.empty()) return;
  // What the driver says now is what a reset will change. An answer alone must not end the cause in
  // the moment in which it came.
  const auto condition = library.ReadCondition(event.device_uuid);
  if (!condition) return;
  Change(event.device_uuid, 0, [&](HealthState& state) {
    return state.OnCondition(event.device_uuid, *condition, base::SteadyClock::now());
  });
}

void HealthMonitor::WaitForEvents(nvml::Library& library, nvml::EventSet& events,
                                  const io::StopToken& stop) {
  auto next_probe = base::SteadyClock::now() + probe_period_;
  while (true) {
    std::optional<std::chrono::milliseconds> limit;
    if (!Unfit().empty()) {
      limit = std::max(std::chrono::milliseconds(0),
                       std::chrono::duration_cast<std::chrono::milliseconds>(
                           next_probe - base::SteadyClock::now()));
    }
    const auto event = events.Wait(stop.fd(), limit);
    if (event) {
      if (Unfit().empty()) next_probe = base::SteadyClock::now() + probe_period_;
      Take(library, *event);
      continue;
    }
    if (event.error().code == base::Code::kCancelled) return;
    if (event.error().code == base::Code::kTimeout) {
      next_probe = base::SteadyClock::now() + probe_period_;
      if (Probe(library, Unfit(), stop)) return;
      continue;
    }
    // Something is wrong with NVML as a whole or with a GPU: ask each one.
    base::LogWarning("waiting for GPU health events failed", event.error());
    Probe(library, state_.watched(), stop);
    if (stop.WaitFor(probe_period_)) return;
    Probe(library, state_.watched(), stop);
    return;
  }
}

bool HealthMonitor::Probe(nvml::Library& library, const std::vector<std::string>& gpus,
                          const io::StopToken& stop) {
  bool came_back = false;
  for (const auto& gpu : gpus) {
    // Each may take its time.
    if (stop.stopped()) return came_back;
    const auto condition = library.ReadCondition(gpu);
    const bool changed = Change(gpu, 0, [&](HealthState& state) {
      const auto now = base::SteadyClock::now();
      return condition ? state.OnAnswer(gpu, *condition, now)
                       : state.OnSilence(gpu, condition.error(), now);
    });
    came_back = came_back || (changed && condition);
  }
  return came_back;
}

}  // namespace pitcrew::node::device_plugin
