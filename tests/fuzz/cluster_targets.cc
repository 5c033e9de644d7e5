#include <optional>
#include <string>

#include "api/cluster_policy.h"
#include "codec/json.h"
#include "codec/yaml.h"
#include "dashboard/readings.h"
#include "driver_upgrade/metrics_note.h"
#include "fuzz/target.h"
#include "snapshot/file.h"
#include "snapshot/list_cutter.h"

namespace pitcrew::fuzz {
namespace {

void ReadClusterPolicy(std::string_view input) {
  const auto object = codec::ParseYaml(input);
  if (object) (void)api::ReadClusterPolicy(*object);
}

void ReadSnapshot(std::string_view input) {
  (void)snapshot::VisitText(input, "input", [](codec::Json) -> base::Status { return {}; });
}

// What is cut out of a well-formed list is what a reader of the whole finds in it.
void CutList(std::string_view input) {
  (void)snapshot::CutYamlList(input);
  const auto cut = snapshot::CutJsonList(input);
  if (!cut) return;
  const auto whole = codec::ParseJson(input);
  if (!whole) return;
  const auto* items = codec::Find(*whole, {"items"});
  Check(items != nullptr && items->is_array() && items->size() == cut->items.size(),
        "as many items are cut as there are");
}

// What an exporter says becomes JSON, whatever it is.
void ReadGpuReadings(std::string_view input) {
  const auto json = dashboard::ToJson(dashboard::ReadExposition(input));
  Check(codec::ParseJson(codec::ToJsonText(json)).has_value(), "readings are JSON");
}

// What the operator keeps of it stands in an annotation, and is read as it was written.
void ReadMetricsNote(std::string_view input) {
  const driver_upgrade::Record record{.revision = "v2", .finished = {}, .duration = {}};
  const auto reading = driver_upgrade::ReadGpuReadings(input);
  const std::string text = driver_upgrade::ToText(
      driver_upgrade::NoteAfter(std::nullopt, record, {}, reading, std::nullopt));
  Check(text.size() < 200000, "an annotation may not be larger");
  const auto note = driver_upgrade::ReadMetricsNote(text);
  Check(note.has_value(), "a note is read again");
  Check(driver_upgrade::ToText(*note) == text, "and is the same one");
  if (const auto any = driver_upgrade::ReadMetricsNote(input)) (void)driver_upgrade::ToText(*any);
}

constexpr Target kTargets[] = {{"cluster_policy", ReadClusterPolicy},
                               {"snapshot", ReadSnapshot},
                               {"list_cutter", CutList},
                               {"gpu_readings", ReadGpuReadings},
                               {"metrics_note", ReadMetricsNote}};

}  // namespace

std::span<const Target> ClusterTargets() { return kTargets; }

}  // namespace pitcrew::fuzz
