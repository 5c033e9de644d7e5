#include "driver_upgrade/metrics_note.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "api/labels.h"
#include "base/strings.h"
#include "prom/sample.h"

namespace pitcrew::driver_upgrade {
namespace {

using codec::Json;

constexpr std::string_view kXid = "DCGM_FI_DEV_XID_ERRORS";
constexpr std::string_view kFieldPrefix = "DCGM_FI_";

// What rises when memory of the GPU fails; those of the exporter's default counters first.
struct Counter {
  std::string_view series;
  std::string_view what;
};
constexpr Counter kCounters[] = {
    {"DCGM_FI_DEV_ROW_REMAP_FAILURE", "a row of its memory could not be remapped"},
    {"DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "uncorrectable errors had rows remapped"},
    {"DCGM_FI_DEV_ROW_REMAP_PENDING", "a row of its memory waits to be remapped"},
    {"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "uncorrectable memory errors"},
    {"DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", "uncorrectable memory errors"},
};

// What is kept stands in an annotation: no page makes it larger than the API server takes.
constexpr std::size_t kMostGpus = 256;
constexpr std::size_t kLongestUuid = 96;

bool IsKept(std::string_view series) {
  return series == kXid ||
         std::ranges::find(kCounters, series, &Counter::series) != std::end(kCounters);
}

using Series = std::map<std::string, double>;

std::optional<double> ValueOf(const Series& series, std::string_view name) {
  const auto found = series.find(std::string(name));
  return found == series.end() ? std::nullopt : std::optional(found->second);
}

std::string EvidenceOf(const std::string& gpu, const Series& first, const Series& now) {
  // There is no such series until the first XID.
  const double xid = ValueOf(now, kXid).value_or(0);
  if (xid != 0 && xid != ValueOf(first, kXid).value_or(0)) {
    return fmt::format("GPU {} has had XID {:.0f}", gpu, xid);
  }
  for (const Counter& counter : kCounters) {
    const auto before = ValueOf(first, counter.series);
    const auto after = ValueOf(now, counter.series);
    if (before && after && *after > *before) {
      return fmt::format("GPU {}: {} ({} {:.0f}, was {:.0f})", gpu, counter.what, counter.series,
                         *after, *before);
    }
  }
  return "";
}

Json ReadingsJson(const GpuReadings& readings) {
  Json json = Json::object();
  for (const auto& [gpu, series] : readings.gpus) json[gpu] = series;
  return json;
}

GpuReadings ReadReadings(const Json& json) {
  GpuReadings readings;
  if (!json.is_object()) return readings;
  for (const auto& [gpu, series] : json.items()) {
    Series& own = readings.gpus[gpu];
    if (!series.is_object()) continue;
    for (const auto& [name, value] : series.items()) {
      if (value.is_number()) own[name] = value.get<double>();
    }
  }
  return readings;
}

}  // namespace

GpuReadings ReadGpuReadings(std::string_view page) {
  GpuReadings readings;
  prom::ForEachSample(page, [&](const prom::Sample& sample) {
    if (!sample.name.starts_with(kFieldPrefix) || sample.Label("gpu").empty()) return;
    std::string_view uuid = sample.Label("UUID", "uuid");
    if (uuid.empty()) uuid = sample.Label("gpu");
    if (uuid.size() > kLongestUuid || readings.gpus.size() >= kMostGpus) return;
    Series& series = readings.gpus[std::string(uuid)];
    if (!IsKept(sample.name)) return;
    // Pods and MIG instances have a line each.
    double& value = series.try_emplace(std::string(sample.name), sample.value).first->second;
    value = std::max(value, sample.value);
  });
  return readings;
}

std::string EvidenceIn(const GpuReadings& first, const GpuReadings& now,
                       std::optional<std::int64_t> expected) {
  for (const auto& [gpu, series] : first.gpus) {
    const auto found = now.gpus.find(gpu);
    if (found == now.gpus.end()) {
      return fmt::format("GPU {} is missing: the metrics exporter knows of {}, and knew of {}", gpu,
                         now.gpus.size(), first.gpus.size());
    }
    if (auto evidence = EvidenceOf(gpu, series, found->second); !evidence.empty()) return evidence;
  }
  if (expected && std::ssize(now.gpus) < *expected) {
    return fmt::format("the metrics exporter knows of {} GPUs, and the node offers {}",
                       now.gpus.size(), *expected);
  }
  return "";
}

std::optional<std::int64_t> OfferedGpus(const Json& node) {
  const auto label = [&](const std::string& key) {
    return codec::FindString(node, {"metadata", "labels", key});
  };
  const std::string resource(api::kGpuResource);
  const bool shared = base::ParseInteger(label(resource + ".replicas")).value_or(1) > 1;
  // MIG strategy "single" offers instances by the same name.
  const bool divided = label(std::string(api::kGpuProduct)).contains("-MIG-");
  const auto offered =
      base::ParseInteger(codec::FindString(node, {"status", "capacity", resource}));
  if (shared || divided || !offered || *offered == 0) return std::nullopt;
  return *offered;
}

std::string ToText(const MetricsNote& note) {
  Json json = {{"revision", note.revision},
               {"finished", base::FormatRfc3339(note.finished)},
               {"looked", base::FormatRfc3339(note.looked)}};
  if (note.first) json["first"] = ReadingsJson(*note.first);
  if (!note.against.empty()) json["against"] = note.against;
  if (!note.unknown.empty()) json["unknown"] = note.unknown;
  return codec::ToJsonText(json);
}

std::optional<MetricsNote> ReadMetricsNote(std::string_view text) {
  if (text.empty()) return std::nullopt;
  const auto json = codec::ParseJson(text, "the annotation");
  if (!json) return std::nullopt;
  const auto finished = base::ParseRfc3339(codec::FindString(*json, {"finished"}));
  const auto looked = base::ParseRfc3339(codec::FindString(*json, {"looked"}));
  if (!finished || !looked) return std::nullopt;
  MetricsNote note{.revision = codec::FindString(*json, {"revision"}),
                   .finished = *finished,
                   .looked = *looked,
                   .first = std::nullopt,
                   .against = codec::FindString(*json, {"against"}),
                   .unknown = codec::FindString(*json, {"unknown"})};
  if (const Json* first = codec::Find(*json, {"first"})) note.first = ReadReadings(*first);
  return note;
}

MetricsNote NoteAfter(const std::optional<MetricsNote>& before, const Record& record,
                      base::WallClock::time_point now, const base::Result<GpuReadings>& reading,
                      std::optional<std::int64_t> expected) {
  MetricsNote note{.revision = record.revision,
                   .finished = record.finished,
                   .looked = now,
                   .first = std::nullopt};
  if (before && before->IsOf(record)) {
    note.first = before->first;
    // What cannot be read any longer is not mended.
    if (!reading) note.against = before->against;
  }
  if (!reading) {
    note.unknown = reading.error().message;
  } else if (!note.first && reading->gpus.empty()) {
    note.unknown = "the metrics exporter tells of no GPU";
  } else {
    if (!note.first) note.first = *reading;
    note.against = EvidenceIn(*note.first, *reading, expected);
  }
  return note;
}

bool IsLookDue(const std::optional<MetricsNote>& note, const Record& record,
               base::WallClock::time_point until, base::WallClock::time_point now) {
  if (!note || !note->IsOf(record)) return true;
  if (now >= until && note->looked < until) return true;
  return !note->against.empty() && now >= note->looked + kLookAgain;
}

}  // namespace pitcrew::driver_upgrade
