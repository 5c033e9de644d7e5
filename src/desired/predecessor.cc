#include "desired/predecessor.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "desired/owned_object.h"

namespace pitcrew::desired {
namespace {

using codec::Json;

bool IsEntryOf(const Json& entry, std::string_view manager, std::string_view operation) {
  return codec::FindString(entry, {"manager"}) == manager &&
         codec::FindString(entry, {"operation"}) == operation &&
         codec::FindString(entry, {"subresource"}).empty();
}

// FieldsV1 is a tree of objects whose leaves are empty: the union of two sets is the merged tree.
void Unite(Json& fields, const Json& more) {
  if (!fields.is_object() || !more.is_object()) return;
  for (const auto& [key, value] : more.items()) {
    const auto known = fields.find(key);
    if (known == fields.end()) {
      fields[key] = value;
    } else {
      Unite(*known, value);
    }
  }
}

}  // namespace

std::optional<Json> TakenOverFields(const Json& object) {
  const Json* entries = codec::Find(object, {"metadata", "managedFields"});
  if (entries == nullptr || !entries->is_array()) return std::nullopt;
  std::vector<Json> taken;
  Json result = Json::array();
  for (const Json& entry : *entries) {
    if (IsEntryOf(entry, kUpstreamManager, "Update")) {
      taken.push_back(entry);
    } else {
      result.push_back(entry);
    }
  }
  if (taken.empty()) return std::nullopt;
  for (Json& entry : taken) {
    const std::string version = codec::FindString(entry, {"apiVersion"});
    const auto ours = std::ranges::find_if(result, [&](const Json& known) {
      return IsEntryOf(known, kFieldManager, "Apply") &&
             codec::FindString(known, {"apiVersion"}) == version;
    });
    if (ours != result.end()) {
      Unite((*ours)["fieldsV1"], entry["fieldsV1"]);
      continue;
    }
    entry["manager"] = kFieldManager;
    entry["operation"] = "Apply";
    result.push_back(std::move(entry));
  }
  return result;
}

}  // namespace pitcrew::desired
