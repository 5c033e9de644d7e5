#include "kube/ownership.h"

namespace pitcrew::kube {

using codec::Json;

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
