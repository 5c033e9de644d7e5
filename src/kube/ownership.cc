#include "kube/ownership.h"

#include <fmt/format.h>

namespace pitcrew::kube {

using codec::Json;

base::Status SetControllerReference(Json& object, const Json& owner,
                                    const ResourceKind& owner_kind) {
  TRY_ASSIGN(const ObjectMeta meta, MetaOf(owner));
  const ObjectKey key = KeyOf(object);
  if (owner_kind.namespaced && key.namespace_name != meta.key.namespace_name) {
    return base::Fail(base::Invalid(
        "OwnerInOtherNamespace",
        fmt::format("{} {} cannot own {}: an owner in a namespace owns objects of that namespace",
                    owner_kind.kind, meta.key.ToString(), key.ToString())));
  }
  if (const auto other = ControllerOf(object); other && other->uid != meta.uid) {
    return base::Fail(base::Error{
        .code = base::Code::kConflict,
        .reason = "ControlledByOther",
        .message =
            fmt::format("{} is controlled by {} {}", key.ToString(), other->kind, other->name)});
  }
  Json reference{{"apiVersion", owner_kind.api_version()},
                 {"kind", owner_kind.kind},
                 {"name", meta.key.name},
                 {"uid", meta.uid},
                 {"controller", true},
                 {"blockOwnerDeletion", true}};
  Json& references = object["metadata"]["ownerReferences"];
  if (!references.is_array()) references = Json::array();
  for (Json& known : references) {
    if (codec::FindString(known, {"uid"}) != meta.uid) continue;
    known = std::move(reference);
    return {};
  }
  references.push_back(std::move(reference));
  return {};
}

std::optional<OwnerReference> ControllerOf(const Json& object) {
  const Json* references = codec::Find(object, {"metadata", "ownerReferences"});
  if (references == nullptr || !references->is_array()) return std::nullopt;
  for (const Json& reference : *references) {
    const Json* controller = codec::Find(reference, {"controller"});
    if (controller == nullptr || !controller->is_boolean() || !controller->get<bool>()) continue;
    return OwnerReference{.api_version = codec::FindString(reference, {"apiVersion"}),
                          .kind = codec::FindString(reference, {"kind"}),
                          .name = codec::FindString(reference, {"name"}),
                          .uid = codec::FindString(reference, {"uid"}),
                          .controller = true};
  }
  return std::nullopt;
}

bool IsControlledBy(const Json& object, std::string_view owner_uid) {
  const auto controller = ControllerOf(object);
  return controller && controller->uid == owner_uid;
}

}  // namespace pitcrew::kube
