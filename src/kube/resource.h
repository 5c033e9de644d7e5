// Names of things in the API: kinds of resources and keys of objects.
#pragma once

#include <compare>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "codec/json.h"

namespace pitcrew::kube {

// One kind of resource. The texts are borrowed: use literals (constants), not computed strings.
struct ResourceKind {
  std::string_view group;  // empty for the core group
  std::string_view version;
  std::string_view plural;
  std::string_view kind;
  bool namespaced = true;

  // "v1" or "apps/v1".
  [[nodiscard]] std::string api_version() const;
  bool operator==(const ResourceKind&) const = default;
};

// Namespace and name; the namespace is empty for cluster-scoped objects.
struct ObjectKey {
  std::string namespace_name{};
  std::string name{};

  // "namespace/name", or the name alone when there is no namespace.
  [[nodiscard]] std::string ToString() const;
  auto operator<=>(const ObjectKey&) const = default;
};

// What every object says about itself in its metadata.
struct ObjectMeta {
  ObjectKey key{};
  std::string uid{};
  std::string resource_version{};
  bool deleting = false;  // has a deletionTimestamp

  bool operator==(const ObjectMeta&) const = default;
};

ObjectKey KeyOf(const codec::Json& object);

inline constexpr ResourceKind kNamespaces{"", "v1", "namespaces", "Namespace", false};
inline constexpr ResourceKind kNodes{"", "v1", "nodes", "Node", false};
inline constexpr ResourceKind kPods{"", "v1", "pods", "Pod"};
inline constexpr ResourceKind kConfigMaps{"", "v1", "configmaps", "ConfigMap"};
inline constexpr ResourceKind kSecrets{"", "v1", "secrets", "Secret"};
inline constexpr ResourceKind kServices{"", "v1", "services", "Service"};
inline constexpr ResourceKind kServiceAccounts{"", "v1", "serviceaccounts", "ServiceAccount"};
inline constexpr ResourceKind kEvents{"", "v1", "events", "Event"};
inline constexpr ResourceKind kDaemonSets{"apps", "v1", "daemonsets", "DaemonSet"};
inline constexpr ResourceKind kRoles{"rbac.authorization.k8s.io", "v1", "roles", "Role"};
inline constexpr ResourceKind kRoleBindings{"rbac.authorization.k8s.io", "v1", "rolebindings",
                                            "RoleBinding"};
inline constexpr ResourceKind kClusterRoles{"rbac.authorization.k8s.io", "v1", "clusterroles",
                                            "ClusterRole", false};
inline constexpr ResourceKind kClusterRoleBindings{
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", false};
inline constexpr ResourceKind kRuntimeClasses{"node.k8s.io", "v1", "runtimeclasses", "RuntimeClass",
                                              false};
inline constexpr ResourceKind kLeases{"coordination.k8s.io", "v1", "leases", "Lease"};
inline constexpr ResourceKind kCustomResourceDefinitions{
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", false};

}  // namespace pitcrew::kube

template <>
struct std::hash<pitcrew::kube::ObjectKey> {
  std::size_t operator()(const pitcrew::kube::ObjectKey& key) const noexcept {
    const std::size_t first = std::hash<std::string>{}(key.namespace_name);
    return std::hash<std::string>{}(key.name) ^ (first * 0x9E3779B97F4A7C15ULL);
  }
};
