// What the metrics of a node's GPUs say against its new driver, while the node is one of those that
// go first: readings of its metrics exporter (metrics-exporter.md section 3.3), the first of its
// observation beside the newest. Pure; operator/upgrade/metrics_looks.h asks the exporter.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "codec/json.h"
#include "driver_upgrade/record.h"

namespace pitcrew::driver_upgrade {

// By UUID of the GPU and name of the series: XIDs and counters of memory errors, as far as the
// exporter has them. A GPU without any of them is among them.
struct GpuReadings {
  std::map<std::string, std::map<std::string, double>> gpus;

  bool operator==(const GpuReadings&) const = default;
};
// From the page of a metrics exporter.
GpuReadings ReadGpuReadings(std::string_view page);

// What has happened between two readings, as a sentence without a full stop: another XID, memory
// errors that have become more, a GPU that is missing; "" for nothing. `expected`: GPUs that the
// node offers, where they can be counted.
std::string EvidenceIn(const GpuReadings& first, const GpuReadings& now,
                       std::optional<std::int64_t> expected);

// GPUs that the exporter of a Node has to know of: those that it offers (status.capacity). None
// where that does not count GPUs: shared ones, MIG instances, or nothing offered.
std::optional<std::int64_t> OfferedGpus(const codec::Json& node);

// What is remembered: value of the node's annotation api::kUpgradeMetricsAnnotation. Of the upgrade
// whose record it names, so that a later one begins anew.
struct MetricsNote {
  std::string revision;
  base::WallClock::time_point finished;
  base::WallClock::time_point looked;  // the last time
  std::optional<GpuReadings> first;    // none: there has been no reading yet
  std::string against = {};            // EvidenceIn the newest reading
  std::string unknown = {};            // why there was none the last time; "" when there was one

  [[nodiscard]] bool IsOf(const Record& record) const {
    return revision == record.revision && finished == record.finished;
  }
  bool operator==(const MetricsNote&) const = default;
};
std::string ToText(const MetricsNote& note);
// None when the text is none of these.
std::optional<MetricsNote> ReadMetricsNote(std::string_view text);

// After another look.
MetricsNote NoteAfter(const std::optional<MetricsNote>& before, const Record& record,
                      base::WallClock::time_point now, const base::Result<GpuReadings>& reading,
                      std::optional<std::int64_t> expected);

// While something speaks against the driver, it is looked after this time whether it still does.
inline constexpr std::chrono::seconds kLookAgain{60};

// Whether a node is to be looked at that is observed until `until`: at the begin, at the end, and
// while something is wrong.
bool IsLookDue(const std::optional<MetricsNote>& note, const Record& record,
               base::WallClock::time_point until, base::WallClock::time_point now);

}  // namespace pitcrew::driver_upgrade
