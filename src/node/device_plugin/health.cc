#include "node/device_plugin/health.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace pitcrew::node::device_plugin {
namespace {

using gpu::XidEffect;
using nvml::RecoveryAction;
using Kind = HealthCause::Kind;

bool AsksForRecovery(const nvml::Condition& condition) {
  return condition.recovery_action.value_or(RecoveryAction::kNone) != RecoveryAction::kNone;
}

// Only a reset takes back what the driver asked for, and remaps the rows that wait for it.
bool WasReset(const nvml::Condition& before, const nvml::Condition& now) {
  const bool action_done =
      AsksForRecovery(before) && now.recovery_action.has_value() && !AsksForRecovery(now);
  const bool remapped = before.remap_pending.value_or(false) && now.remap_pending == false;
  return action_done || remapped;
}

bool EndsWithAnAnswer(const HealthCause& cause, const nvml::Condition& condition, bool was_reset,
                      base::SteadyClock::time_point now) {
  switch (cause.kind) {
    case Kind::kSilent:
      return true;
    case Kind::kRecovery:
      return !AsksForRecovery(condition);
    case Kind::kWornOut:
      return condition.remap_failed == false;
    case Kind::kXid:
      break;
  }
  switch (cause.effect) {
    case XidEffect::kUntilQuiet:
      return was_reset || now - cause.last >= kQuietPeriod;
    case XidEffect::kUntilAnswers:
      return true;
    default:
      return was_reset;
  }
}

std::string Describe(const HealthCause& cause) {
  if (cause.kind != Kind::kXid) return cause.detail;
  const auto what = fmt::format("XID {} ({})", cause.xid, gpu::MeaningOfXid(cause.xid));
  switch (cause.effect) {
    case XidEffect::kUntilQuiet:
      return fmt::format("{}; fit again after {} quiet seconds", what, kQuietPeriod.count());
    case XidEffect::kUntilAnswers:
      return fmt::format("{}; fit again when it answers", what);
    default:
      return fmt::format("{}; the GPU needs a reset", what);
  }
}

}  // namespace

bool HealthCause::IsSameAs(const HealthCause& other) const {
  return kind == other.kind && xid == other.xid && gpu_instance == other.gpu_instance &&
         compute_instance == other.compute_instance && detail == other.detail;
}

bool HealthState::Add(const std::string& gpu_uuid, HealthCause cause) {
  auto& causes = gpus_[gpu_uuid].causes;
  const auto same =
      std::ranges::find_if(causes, [&](const HealthCause& known) { return known.IsSameAs(cause); });
  if (same != causes.end()) {
    same->last = cause.last;
    return false;
  }
  // One of these at a time: the newest says it best.
  if (cause.kind == Kind::kSilent || cause.kind == Kind::kRecovery) {
    std::erase_if(causes, [&](const HealthCause& known) {
      cause.lost = cause.lost || (known.kind == cause.kind && known.lost);
      return known.kind == cause.kind;
    });
  }
  causes.push_back(std::move(cause));
  return true;
}

bool HealthState::OnEvent(const nvml::Event& event, base::SteadyClock::time_point now) {
  if (event.type != nvml::EventType::kXid) return false;
  const auto effect = policy_.EffectOf(event.data);
  if (effect == XidEffect::kIgnore) return false;
  HealthCause cause{.kind = Kind::kXid,
                    .xid = event.data,
                    .effect = effect,
                    .gpu_instance = event.gpu_instance_id,
                    .compute_instance = event.compute_instance_id,
                    .lost = false,
                    .last = now,
                    .detail = {}};
  if (event.device_uuid.empty()) {
    cause.effect = XidEffect::kUntilAnswers;
    bool changed = false;
    for (const auto& gpu : watched_) changed = Add(gpu, cause) || changed;
    return changed;
  }
  if (std::ranges::find(watched_, event.device_uuid) == watched_.end()) return false;
  cause.lost = effect == XidEffect::kUntilAnswers;
  return Add(event.device_uuid, std::move(cause));
}

bool HealthState::OnSilence(const std::string& gpu_uuid, const base::Error& error,
                            base::SteadyClock::time_point now) {
  HealthCause cause;
  cause.kind = Kind::kSilent;
  cause.lost = error.reason == "GpuIsLost";
  cause.last = now;
  cause.detail = fmt::format("NVML cannot reach it ({})", error.ToString());
  return Add(gpu_uuid, std::move(cause));
}

bool HealthState::OnAnswer(const std::string& gpu_uuid, const nvml::Condition& condition,
                           base::SteadyClock::time_point now) {
  const auto known = gpus_.find(gpu_uuid);
  if (known == gpus_.end() && !AsksForRecovery(condition) && condition.remap_failed != true) {
    return false;
  }
  auto& health = gpus_[gpu_uuid];
  const bool was_lost =
      std::ranges::any_of(health.causes, [](const HealthCause& cause) { return cause.lost; });
  const bool was_reset = was_lost || WasReset(health.condition, condition);
  bool changed = std::erase_if(health.causes, [&](const HealthCause& cause) {
                   return EndsWithAnAnswer(cause, condition, was_reset, now);
                 }) != 0;
  changed = OnCondition(gpu_uuid, condition, now) || changed;
  if (gpus_[gpu_uuid].causes.empty()) gpus_.erase(gpu_uuid);
  return changed;
}

bool HealthState::OnCondition(const std::string& gpu_uuid, const nvml::Condition& condition,
                              base::SteadyClock::time_point now) {
  gpus_[gpu_uuid].condition = condition;
  bool changed = false;
  HealthCause cause;
  cause.last = now;
  if (AsksForRecovery(condition)) {
    cause.kind = Kind::kRecovery;
    cause.detail =
        fmt::format("the driver says what it needs: {}", ToString(*condition.recovery_action));
    changed = Add(gpu_uuid, cause) || changed;
  }
  if (condition.remap_failed == true) {
    cause.kind = Kind::kWornOut;
    cause.detail = "its memory has no rows left to remap to; the board needs to be replaced";
    changed = Add(gpu_uuid, cause) || changed;
  }
  return changed;
}

bool HealthState::IsHealthy(const OfferedDevice& device) const {
  const auto found = gpus_.find(device.gpu_uuid);
  if (found == gpus_.end()) return true;
  return std::ranges::none_of(found->second.causes, [&](const HealthCause& cause) {
    const bool whole_gpu =
        cause.gpu_instance == nvml::kNoInstance || cause.compute_instance == nvml::kNoInstance;
    if (whole_gpu || !device.IsMig()) return true;
    return cause.gpu_instance == device.gpu_instance &&
           cause.compute_instance == device.compute_instance;
  });
}

std::vector<std::string> HealthState::Unfit() const {
  std::vector<std::string> unfit;
  for (const auto& gpu : watched_) {
    if (gpus_.contains(gpu)) unfit.push_back(gpu);
  }
  return unfit;
}

std::string HealthState::ReasonOf(const std::string& gpu_uuid) const {
  const auto found = gpus_.find(gpu_uuid);
  if (found == gpus_.end()) return "";
  std::vector<std::string> reasons;
  for (const auto& cause : found->second.causes) reasons.push_back(Describe(cause));
  return fmt::format("{}", fmt::join(reasons, "; "));
}

}  // namespace pitcrew::node::device_plugin
