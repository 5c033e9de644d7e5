#include "kube/resource.h"

#include <fmt/format.h>

namespace pitcrew::kube {

std::string ResourceKind::api_version() const {
  return group.empty() ? std::string(version) : fmt::format("{}/{}", group, version);
}

std::string ObjectKey::ToString() const {
  return namespace_name.empty() ? name : fmt::format("{}/{}", namespace_name, name);
}

ObjectKey KeyOf(const codec::Json& object) {
  return {.namespace_name = codec::FindString(object, {"metadata", "namespace"}),
          .name = codec::FindString(object, {"metadata", "name"})};
}

}  // namespace pitcrew::kube
