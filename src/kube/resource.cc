#include "kube/resource.h"

#include <fmt/format.h>

#include <array>

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

const ResourceKind* FindBuiltInKind(std::string_view api_version, std::string_view kind) {
  static constexpr std::array kKinds{&kNamespaces,
                                     &kNodes,
                                     &kPods,
                                     &kConfigMaps,
                                     &kSecrets,
                                     &kServices,
                                     &kServiceAccounts,
                                     &kEvents,
                                     &kDaemonSets,
                                     &kDeployments,
                                     &kControllerRevisions,
                                     &kJobs,
                                     &kRoles,
                                     &kRoleBindings,
                                     &kClusterRoles,
                                     &kClusterRoleBindings,
                                     &kRuntimeClasses,
                                     &kPriorityClasses,
                                     &kLeases,
                                     &kCustomResourceDefinitions};
  for (const ResourceKind* known : kKinds) {
    if (known->kind == kind && known->api_version() == api_version) return known;
  }
  return nullptr;
}

}  // namespace pitcrew::kube
