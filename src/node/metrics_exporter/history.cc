#include "node/metrics_exporter/history.h"

#include <algorithm>
#include <array>
#include <set>

namespace pitcrew::node::metrics_exporter {
namespace {

struct ReasonName {
  std::uint64_t bit;
  std::string_view name;
};
// metrics-exporter.md section 7.
constexpr std::array<ReasonName, 9> kReasons = {{{0x1, "gpu_idle"},
                                                 {0x2, "clocks_setting"},
                                                 {0x4, "power_cap"},
                                                 {0x8, "hw_slowdown"},
                                                 {0x10, "sync_boost"},
                                                 {0x20, "sw_thermal"},
                                                 {0x40, "hw_thermal"},
                                                 {0x80, "hw_power_brake"},
                                                 {0x100, "display_clocks"}}};

}  // namespace

bool XidHistory::Concerns(const Event& event, std::string_view gpu_uuid,
                          std::optional<unsigned> instance) {
  return event.gpu_uuid == gpu_uuid && (!instance || !event.instance || event.instance == instance);
}

void XidHistory::Add(TimePoint time, const std::string& gpu_uuid, std::optional<unsigned> instance,
                     std::uint64_t xid) {
  events_.push_back({time, gpu_uuid, instance, xid});
}

std::optional<std::uint64_t> XidHistory::Last(std::string_view gpu_uuid,
                                              std::optional<unsigned> instance) const {
  for (auto event = events_.rbegin(); event != events_.rend(); ++event) {
    if (Concerns(*event, gpu_uuid, instance)) return event->xid;
  }
  return std::nullopt;
}

std::map<std::uint64_t, unsigned> XidHistory::Count(std::string_view gpu_uuid,
                                                    std::optional<unsigned> instance, TimePoint now,
                                                    Window window) const {
  std::map<std::uint64_t, unsigned> counts;
  for (const auto& event : events_) {
    if (event.time + window >= now && Concerns(event, gpu_uuid, instance)) ++counts[event.xid];
  }
  return counts;
}

std::vector<std::uint64_t> XidHistory::All(std::string_view gpu_uuid) const {
  std::vector<std::uint64_t> xids;
  for (const auto& event : events_) {
    if (event.gpu_uuid == gpu_uuid) xids.push_back(event.xid);
  }
  return xids;
}

void XidHistory::Trim(TimePoint now, Window window) {
  // The newest of each kind stays: it is the last one of somebody, or tells of the GPU's health.
  std::set<std::tuple<std::string, std::optional<unsigned>, std::uint64_t>> seen;
  std::vector<Event> kept;
  for (auto event = events_.rbegin(); event != events_.rend(); ++event) {
    const bool newest = seen.insert({event->gpu_uuid, event->instance, event->xid}).second;
    if (newest || event->time + window >= now) kept.push_back(*event);
  }
  std::ranges::reverse(kept);
  events_ = std::move(kept);
}

void ClockEventHistory::Add(TimePoint time, const std::string& gpu_uuid, std::uint64_t reasons) {
  samples_[gpu_uuid].emplace_back(time, reasons);
}

std::map<std::string, unsigned> ClockEventHistory::Count(std::string_view gpu_uuid, TimePoint now,
                                                         Window window) const {
  std::map<std::string, unsigned> counts;
  const auto samples = samples_.find(gpu_uuid);
  if (samples == samples_.end()) return counts;
  for (const auto& [time, reasons] : samples->second) {
    if (time + window < now) continue;
    for (const auto& reason : kReasons) {
      if ((reasons & reason.bit) != 0) ++counts[std::string(reason.name)];
    }
  }
  return counts;
}

void ClockEventHistory::Trim(TimePoint now, Window window) {
  for (auto& [gpu, samples] : samples_) {
    std::erase_if(samples, [&](const auto& sample) { return sample.first + window < now; });
  }
  std::erase_if(samples_, [](const auto& entry) { return entry.second.empty(); });
}

std::optional<CounterHistory::Growth> CounterHistory::Advance(const std::string& gpu_uuid,
                                                              const nvml::Question& question,
                                                              TimePoint time, std::int64_t value) {
  auto& reading = readings_[{gpu_uuid, question}];
  if (reading.time == time) return reading.growth;
  const bool first = reading.time == TimePoint();
  if (first) {
    reading = {time, value, std::nullopt};
  } else {
    reading.growth = Growth{std::max<std::int64_t>(value - reading.value, 0), time - reading.time};
    reading.time = time;
    reading.value = value;
  }
  return reading.growth;
}

void CounterHistory::Keep(const std::vector<std::string>& gpu_uuids) {
  std::erase_if(readings_, [&](const auto& entry) {
    return std::ranges::find(gpu_uuids, entry.first.first) == gpu_uuids.end();
  });
}

void SlowCounterHistory::Note(const std::string& gpu_uuid, TimePoint time, std::int64_t value) {
  auto& changes = changes_[gpu_uuid];
  if (changes.empty() || changes.back().second != value) changes.emplace_back(time, value);
}

std::optional<std::int64_t> SlowCounterHistory::At(std::string_view gpu_uuid,
                                                   TimePoint time) const {
  const auto found = changes_.find(gpu_uuid);
  if (found == changes_.end()) return std::nullopt;
  std::optional<std::int64_t> value;
  for (const auto& [since, then] : found->second) {
    if (since <= time) value = then;
  }
  return value;
}

}  // namespace pitcrew::node::metrics_exporter
