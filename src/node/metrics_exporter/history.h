// What is remembered from one round to the next: counters behind rates, XIDs, clock events, health.
// Values only; times are given.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "nvml/meter.h"

namespace pitcrew::node::metrics_exporter {

using TimePoint = base::SteadyClock::time_point;
using Window = std::chrono::milliseconds;

// XIDs of GPUs and instances since the start.
class XidHistory {
 public:
  // `instance` is nullopt for an event of the whole GPU, which is one of its instances, too.
  void Add(TimePoint time, const std::string& gpu_uuid, std::optional<unsigned> instance,
           std::uint64_t xid);
  // The last one of the GPU (of any of its instances), or of the instance.
  [[nodiscard]] std::optional<std::uint64_t> Last(std::string_view gpu_uuid,
                                                  std::optional<unsigned> instance) const;
  // How often each came in the window that ends at `now`.
  [[nodiscard]] std::map<std::uint64_t, unsigned> Count(std::string_view gpu_uuid,
                                                        std::optional<unsigned> instance,
                                                        TimePoint now, Window window) const;
  // Every XID that the GPU ever had.
  [[nodiscard]] std::vector<std::uint64_t> All(std::string_view gpu_uuid) const;
  // Forgets what is older than the window, but for the last of each.
  void Trim(TimePoint now, Window window);

 private:
  struct Event {
    TimePoint time;
    std::string gpu_uuid;
    std::optional<unsigned> instance;
    std::uint64_t xid = 0;
  };
  static bool Concerns(const Event& event, std::string_view gpu_uuid,
                       std::optional<unsigned> instance);
  std::vector<Event> events_;  // in the order in which they came
};

// Samples of the reasons for which clocks are held down.
class ClockEventHistory {
 public:
  void Add(TimePoint time, const std::string& gpu_uuid, std::uint64_t reasons);
  // In how many samples of the window each reason was given, by its name.
  [[nodiscard]] std::map<std::string, unsigned> Count(std::string_view gpu_uuid, TimePoint now,
                                                      Window window) const;
  void Trim(TimePoint now, Window window);

 private:
  std::map<std::string, std::vector<std::pair<TimePoint, std::uint64_t>>, std::less<>> samples_;
};

// The growth of counters between two readings.
class CounterHistory {
 public:
  struct Growth {
    std::int64_t by = 0;
    std::chrono::duration<double> over{};
  };
  // Nullopt at the first reading; the same answer again for the same time. A counter that has
  // fallen began anew: it has not grown.
  std::optional<Growth> Advance(const std::string& gpu_uuid, const nvml::Question& question,
                                TimePoint time, std::int64_t value);
  // Forgets all other GPUs.
  void Keep(const std::vector<std::string>& gpu_uuids);

 private:
  struct Reading {
    TimePoint time;
    std::int64_t value = 0;
    std::optional<Growth> growth;
  };
  std::map<std::pair<std::string, nvml::Question>, Reading> readings_;
};

// Counts that change a few times in a GPU's life, as they were at any time since the start.
class SlowCounterHistory {
 public:
  void Note(const std::string& gpu_uuid, TimePoint time, std::int64_t value);
  // Nullopt for a time of which nothing is known.
  [[nodiscard]] std::optional<std::int64_t> At(std::string_view gpu_uuid, TimePoint time) const;

 private:
  // Each value with the time at which it was first seen.
  std::map<std::string, std::vector<std::pair<TimePoint, std::int64_t>>, std::less<>> changes_;
};

}  // namespace pitcrew::node::metrics_exporter
