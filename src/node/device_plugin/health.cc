#include "node/device_plugin/health.h"

#include <fmt/format.h>

#include <algorithm>

namespace pitcrew::node::device_plugin {

using gpu::XidEffect;

HealthState::HealthState(std::vector<std::string> gpu_uuids, gpu::XidPolicy policy)
    : gpus_(std::move(gpu_uuids)), policy_(std::move(policy)) {}

bool HealthState::Add(const std::string& gpu_uuid, const Cause& cause) {
  auto& causes = causes_[gpu_uuid];
  const auto same = std::ranges::find_if(causes, [&](const Cause& known) {
    return known.xid == cause.xid && known.gpu_instance == cause.gpu_instance &&
           known.compute_instance == cause.compute_instance;
  });
  if (same != causes.end()) {
    same->last = cause.last;
    return false;
  }
  causes.push_back(cause);
  return true;
}

bool HealthState::OnEvent(const nvml::Event& event, base::SteadyClock::time_point now) {
  if (event.type != nvml::EventType::kXid) return false;
  const auto effect = policy_.EffectOf(event.data);
  if (effect == XidEffect::kIgnore) return false;
  Cause cause{.effect = effect,
              .xid = event.data,
              .gpu_instance = event.gpu_instance_id,
              .compute_instance = event.compute_instance_id,
              .last = now};
  if (event.device_uuid.empty()) {
    cause.effect = XidEffect::kUntilAnswers;
    bool changed = false;
    for (const auto& gpu : gpus_) changed = Add(gpu, cause) || changed;
    return changed;
  }
  if (std::ranges::find(gpus_, event.device_uuid) == gpus_.end()) return false;
  return Add(event.device_uuid, cause);
}

bool HealthState::OnProbe(const std::string& gpu_uuid, bool answers,
                          base::SteadyClock::time_point now) {
  if (!answers) {
    return Add(gpu_uuid, {.effect = XidEffect::kUntilAnswers, .xid = 0, .last = now});
  }
  const auto found = causes_.find(gpu_uuid);
  if (found == causes_.end()) return false;
  auto& causes = found->second;
  // A GPU that was away and is back was reset on the way: nothing that was before counts.
  const bool was_away =
      std::ranges::any_of(causes, [](const Cause& cause) { return cause.xid == 0; });
  const auto removed = std::erase_if(causes, [&](const Cause& cause) {
    if (was_away || cause.effect == XidEffect::kUntilAnswers) return true;
    return cause.effect == XidEffect::kUntilQuiet && now - cause.last >= kQuietPeriod;
  });
  if (causes.empty()) causes_.erase(found);
  return removed != 0;
}

bool HealthState::IsHealthy(const OfferedDevice& device) const {
  const auto found = causes_.find(device.gpu_uuid);
  if (found == causes_.end()) return true;
  return std::ranges::none_of(found->second, [&](const Cause& cause) {
    const bool whole_gpu =
        cause.gpu_instance == nvml::kNoInstance || cause.compute_instance == nvml::kNoInstance;
    if (whole_gpu || !device.IsMig()) return true;
    return cause.gpu_instance == device.gpu_instance &&
           cause.compute_instance == device.compute_instance;
  });
}

std::vector<std::string> HealthState::Recoverable() const {
  std::vector<std::string> gpus;
  for (const auto& [gpu, causes] : causes_) gpus.push_back(gpu);
  return gpus;
}

std::string HealthState::ReasonOf(const std::string& gpu_uuid) const {
  const auto found = causes_.find(gpu_uuid);
  if (found == causes_.end()) return "";
  const auto& cause = found->second.back();
  if (cause.xid == 0) return "it does not answer";
  switch (cause.effect) {
    case XidEffect::kUntilQuiet:
      return fmt::format("XID {}; fit again after {} quiet seconds", cause.xid,
                         kQuietPeriod.count());
    case XidEffect::kUntilAnswers:
      return fmt::format("XID {}; fit again when it answers", cause.xid);
    default:
      return fmt::format("XID {}; it needs a reset", cause.xid);
  }
}

}  // namespace pitcrew::node::device_plugin
