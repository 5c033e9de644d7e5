#include "operator/take_over.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/labels.h"
#include "base/log.h"
#include "kube/ownership.h"
#include "operator/operand.h"
#include "operator/owned.h"

namespace pitcrew::gpu_operator {
namespace {

using codec::Json;

// How often an object may change between our reading and our writing.
constexpr int kTries = 5;

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

bool MayBeUpstreams(const Json& object, std::string_view policy_uid) {
  return kube::IsControlledBy(object, policy_uid) || TakenOverFields(object).has_value();
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

Predecessor::Predecessor(std::shared_ptr<kube::Client> client, std::string operator_namespace,
                         std::string policy_uid)
    : client_(std::move(client)),
      operator_namespace_(std::move(operator_namespace)),
      policy_uid_(std::move(policy_uid)) {}

base::Status Predecessor::Look(const kube::ResourceKind& kind, const io::StopToken& stop) {
  if (looked_.contains(std::string(kind.plural))) return {};
  const auto listed = client_->List(
      kind, kind.namespaced ? operator_namespace_ : "",
      {.label_selector = "!" + std::string(api::kStateLabel), .page_size = 100}, stop);
  if (!listed) {
    return base::Fail(
        listed.error().Within(fmt::format("look for earlier objects of kind {}", kind.kind)));
  }
  for (const Json& item : listed->items) {
    if (!MayBeUpstreams(item, policy_uid_)) continue;
    Json object = item;  // objects of a list may lack their kind
    object["kind"] = kind.kind;
    StandingObject found = StandingOf(kind, object);
    base::LogInfo(
        "found an object of another operator",
        {{"kind", kind.kind}, {"name", kube::KeyOf(object).ToString()}, {"state", found.state}});
    found_.insert_or_assign({std::string(kind.plural), kube::KeyOf(object)}, std::move(found));
  }
  looked_.insert(std::string(kind.plural));
  return {};
}

base::Status Predecessor::TakeOver(const kube::ResourceKind& kind, const kube::ObjectKey& key,
                                   const io::StopToken& stop) {
  if (!found_.contains({std::string(kind.plural), key})) return {};
  base::Status status;
  for (int i = 0; i < kTries; ++i) {
    const auto object = client_->Get(kind, key, stop);
    if (!object) {
      if (object.error().code == base::Code::kNotFound) return {};
      return base::Fail(object.error());
    }
    const auto fields = TakenOverFields(*object);
    if (!fields) return {};
    // The version makes it a refusal when somebody was faster.
    const Json patch = {
        {{"op", "replace"}, {"path", "/metadata/managedFields"}, {"value", *fields}},
        {{"op", "replace"},
         {"path", "/metadata/resourceVersion"},
         {"value", codec::FindString(*object, {"metadata", "resourceVersion"})}}};
    const auto patched = client_->Patch(kind, key, kube::PatchType::kJson, patch,
                                        {.field_manager = std::string(kFieldManager)}, stop);
    if (patched) {
      base::LogInfo("taken over", {{"kind", kind.kind}, {"name", key.ToString()}});
      return {};
    }
    status = base::Fail(patched.error());
    if (patched.error().code != base::Code::kConflict) break;
  }
  return status;
}

std::vector<StandingObject> Predecessor::Leftovers(const kube::ResourceKind& kind) const {
  std::vector<StandingObject> leftovers;
  for (const auto& [identity, found] : found_) {
    if (identity.first != kind.plural || found.owner_uid != policy_uid_) continue;
    leftovers.push_back(found);
    leftovers.back().kind = &kind;
  }
  return leftovers;
}

void Predecessor::Forget(const kube::ResourceKind& kind, const kube::ObjectKey& key) {
  found_.erase({std::string(kind.plural), key});
}

}  // namespace pitcrew::gpu_operator
