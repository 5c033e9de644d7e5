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

base::Result<ObjectMeta> MetaOf(const codec::Json& object) {
  ObjectMeta meta{
      .key = KeyOf(object),
      .uid = codec::FindString(object, {"metadata", "uid"}),
      .resource_version = codec::FindString(object, {"metadata", "resourceVersion"}),
      .deleting = !codec::FindString(object, {"metadata", "deletionTimestamp"}).empty()};
  if (meta.key.name.empty()) {
    return base::Fail(base::Invalid("UnreadableObject", "the object has no metadata.name"));
  }
  return meta;
}

}  // namespace pitcrew::kube
