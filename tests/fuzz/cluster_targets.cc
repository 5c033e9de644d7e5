#include <string>

#include "api/cluster_policy.h"
#include "codec/json.h"
#include "codec/yaml.h"
#include "dashboard/readings.h"
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

constexpr Target kTargets[] = {{"cluster_policy", ReadClusterPolicy},
                               {"snapshot", ReadSnapshot},
                               {"list_cutter", CutList},
                               {"gpu_readings", ReadGpuReadings}};

}  // namespace

std::span<const Target> ClusterTargets() { return kTargets; }

}  // namespace pitcrew::fuzz
