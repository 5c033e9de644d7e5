#include "workload/cordon.h"

#include <string>

namespace pitcrew::workload {

using codec::Json;

bool IsCordoned(const Json& node) {
  const Json* unschedulable = codec::Find(node, {"spec", "unschedulable"});
  return unschedulable != nullptr && *unschedulable == true;
}

std::optional<Json> CordonPatch(const Json& node, std::string_view annotation) {
  if (IsCordoned(node)) return std::nullopt;
  return Json{{"metadata", {{"annotations", {{std::string(annotation), "true"}}}}},
              {"spec", {{"unschedulable", true}}}};
}

std::optional<Json> UncordonPatch(const Json& node, std::string_view annotation) {
  if (codec::FindString(node, {"metadata", "annotations", annotation}) != "true") {
    return std::nullopt;
  }
  return Json{{"metadata", {{"annotations", {{std::string(annotation), nullptr}}}}},
              {"spec", {{"unschedulable", nullptr}}}};
}

}  // namespace pitcrew::workload
