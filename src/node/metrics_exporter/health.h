// How healthy a GPU is, by what was read of it (metrics-exporter.md section 11).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "node/metrics_exporter/history.h"
#include "nvml/meter.h"

namespace pitcrew::node::metrics_exporter {

// In upstream's order; every GPU has a series for each.
inline constexpr std::array<std::string_view, 11> kHealthWatches = {
    "PCIE", "NVLINK", "PMU", "MCU", "MEM", "SM", "INFOROM", "THERMAL", "POWER", "DRIVER", "ALL"};

enum class Health : unsigned { kPass = 0, kWarning = 10, kFailure = 20 };

struct Incident {
  std::string_view watch;
  Health health = Health::kPass;
  std::string_view code;  // "DCGM_FR_PCI_REPLAY_RATE"

  bool operator==(const Incident&) const = default;
};

// What the checks look at. Nullopt: not known, which is no incident.
struct HealthReadings {
  std::function<std::optional<std::int64_t>(const nvml::Question&)> answer;
  // Growth since the reading before.
  std::function<std::optional<CounterHistory::Growth>(const nvml::Question&)> growth;
  // Whether NVML knows the question and could not answer it.
  std::function<bool(const nvml::Question&)> failed = [](const auto&) { return false; };
  std::vector<std::uint64_t> xids;
  bool is_blackwell = false;  // or later
  // Some GPU of the node is divided: NVML then calls links down that nobody may use.
  bool is_divided = false;
  // Pages retired after double-bit errors; nullopt: the exporter has not run for a week.
  std::optional<std::int64_t> retired_a_week_ago;
  // As NVML tells of the NVLink fabric (gpu::Fabric); nullopt: the GPU is in none.
  struct FabricProbe {
    std::uint8_t state = 0;
    std::uint32_t status = 0;
  };
  std::optional<FabricProbe> fabric;
};
// What the health checks of section 11 look at.
std::vector<nvml::Question> HealthQuestions();
std::vector<Incident> FindIncidents(const HealthReadings& readings);

// One for each watch: the last incident of it, or a pass with "DCGM_FR_OK".
std::vector<Incident> StatusOfWatches(const std::vector<Incident>& incidents);

}  // namespace pitcrew::node::metrics_exporter
