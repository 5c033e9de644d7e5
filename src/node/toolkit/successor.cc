#include "node/toolkit/successor.h"

#include <algorithm>
#include <string>

namespace pitcrew::node::toolkit {
namespace {

using codec::Json;

bool IsBeingDeleted(const Json& object) {
  return codec::Find(object, {"metadata", "deletionTimestamp"}) != nullptr;
}

bool Controls(const Json& daemon_set, const Json& pod) {
  const auto uid = codec::FindString(daemon_set, {"metadata", "uid"});
  const auto* owners = codec::Find(pod, {"metadata", "ownerReferences"});
  return !uid.empty() && owners != nullptr &&
         std::any_of(owners->begin(), owners->end(), [&](const Json& owner) {
           return owner.value("controller", false) && codec::FindString(owner, {"uid"}) == uid;
         });
}

// A template with rules of affinity selects in ways that are not looked at here.
bool Selects(const Json& specification, const Json& node) {
  if (codec::Find(specification, {"affinity"}) != nullptr) return false;
  const auto* selector = codec::Find(specification, {"nodeSelector"});
  if (selector == nullptr || !selector->is_object()) return false;
  for (const auto& [key, value] : selector->items()) {
    const auto* label = codec::Find(node, {"metadata", "labels", key});
    if (label == nullptr || *label != value) return false;
  }
  return true;
}

const Json* Named(const Json* list, const std::string& name) {
  if (list == nullptr || !list->is_array()) return nullptr;
  const auto found = std::find_if(list->begin(), list->end(), [&](const Json& one) {
    return codec::FindString(one, {"name"}) == name;
  });
  return found == list->end() ? nullptr : &*found;
}

// The settings of the toolkit are its variables and the folders of the host that it is given.
bool SetsTheSame(const Json& specification, const Json& pod_specification) {
  const auto* containers = codec::Find(specification, {"containers"});
  if (containers == nullptr) return false;
  for (const Json& container : *containers) {
    const auto* own = Named(codec::Find(pod_specification, {"containers"}),
                            codec::FindString(container, {"name"}));
    if (own == nullptr) return false;
    for (const auto* part : {"command", "args", "env", "envFrom"}) {
      if (container.value(part, Json()) != own->value(part, Json())) return false;
    }
  }
  const auto* volumes = codec::Find(specification, {"volumes"});
  if (volumes == nullptr) return true;
  return std::all_of(volumes->begin(), volumes->end(), [&](const Json& volume) {
    const auto* own =
        Named(codec::Find(pod_specification, {"volumes"}), codec::FindString(volume, {"name"}));
    return own != nullptr && *own == volume;
  });
}

}  // namespace

bool HasSuccessor(const Surroundings& around) {
  for (const auto* object : {&around.daemon_set, &around.node, &around.name_space}) {
    if (!object->is_object() || IsBeingDeleted(*object)) return false;
  }
  const auto* specification = codec::Find(around.daemon_set, {"spec", "template", "spec"});
  const auto* own = codec::Find(around.own_pod, {"spec"});
  return specification != nullptr && own != nullptr &&
         Controls(around.daemon_set, around.own_pod) && Selects(*specification, around.node) &&
         SetsTheSame(*specification, *own);
}

bool KeepsConfiguration(const base::Result<bool>& has_successor) {
  if (has_successor) return *has_successor;
  const auto& why = has_successor.error();
  return why.reason != "NotInCluster" && why.code != base::Code::kDenied;
}

}  // namespace pitcrew::node::toolkit
