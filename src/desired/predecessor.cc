#include "desired/predecessor.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "api/labels.h"
#include "desired/operand.h"
#include "desired/owned_object.h"

namespace pitcrew::desired {
namespace {

using codec::Json;

struct ManifestName {
  std::string_view state;
  std::string kind;
  std::string name;
};

// Kind and name of everything that any manifest makes, on whatever cluster.
const std::vector<ManifestName>& ManifestNames() {
  static const std::vector<ManifestName> kNames = [] {
    // Made without a manifest, on OpenShift (operator-behaviour.md section 14).
    std::vector<ManifestName> names = {{"state-driver", "ConfigMap", "gpu-operator-trusted-ca"}};
    for (const Operand& operand : Operands()) {
      const auto objects = LoadManifests(operand.state, true);
      if (!objects) continue;  // a test parses them all
      for (const Object& object : *objects) {
        names.push_back({operand.state, codec::FindString(object, {"kind"}),
                         codec::FindString(object, {"metadata", "name"})});
      }
    }
    return names;
  }();
  return kNames;
}

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

std::string_view StateOfName(const Json& object) {
  const std::string kind = codec::FindString(object, {"kind"});
  const std::string name = codec::FindString(object, {"metadata", "name"});
  const ManifestName* best = nullptr;
  for (const ManifestName& known : ManifestNames()) {
    if (known.kind != kind) continue;
    const bool variant = kind == "DaemonSet" && name.starts_with(known.name + "-");
    if (name != known.name && !variant) continue;
    if (best == nullptr || known.name.size() > best->name.size()) best = &known;
  }
  if (best != nullptr) return best->state;
  // Named by spec.operator.runtimeClass.
  const bool runtime_class =
      kind == "RuntimeClass" &&
      codec::FindString(object, {"metadata", "labels", api::kComponentLabel}) == "gpu-operator";
  return runtime_class ? "pre-requisites" : "";
}

}  // namespace pitcrew::desired
