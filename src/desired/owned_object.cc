#include "desired/owned_object.h"

#include <algorithm>

#include "api/labels.h"
#include "base/strings.h"
#include "codec/json_items.h"
#include "desired/quantity.h"
#include "kube/ownership.h"

namespace pitcrew::desired {
namespace {

using codec::Json;

constexpr kube::ResourceKind kSecurityContextConstraints{"security.openshift.io", "v1",
                                                         "securitycontextconstraints",
                                                         "SecurityContextConstraints", false};
// Clusters before Kubernetes 1.20.
constexpr kube::ResourceKind kRuntimeClassesBeta{"node.k8s.io", "v1beta1", "runtimeclasses",
                                                 "RuntimeClass", false};

constexpr kube::ResourceKind kServiceMonitors{"monitoring.coreos.com", "v1", "servicemonitors",
                                              "ServiceMonitor"};
constexpr kube::ResourceKind kPrometheusRules{"monitoring.coreos.com", "v1", "prometheusrules",
                                              "PrometheusRule"};

constexpr kube::ResourceKind kKinds[] = {kube::kServiceAccounts,
                                         kube::kRoles,
                                         kube::kRoleBindings,
                                         kube::kClusterRoles,
                                         kube::kClusterRoleBindings,
                                         kube::kConfigMaps,
                                         kube::kServices,
                                         kube::kRuntimeClasses,
                                         kube::kDaemonSets,
                                         kSecurityContextConstraints,
                                         kServiceMonitors,
                                         kPrometheusRules};

std::uint64_t FingerprintOf(const Json& object) {
  Json copy = object;
  copy.erase("status");
  if (auto metadata = copy.find("metadata"); metadata != copy.end()) {
    for (const char* member : {"resourceVersion", "managedFields", "generation", "uid",
                               "creationTimestamp", "selfLink"}) {
      metadata->erase(member);
    }
  }
  return std::hash<std::string>{}(codec::ToJsonText(copy));
}

// The server writes quantities in a form of its own.
bool CoversQuantities(const Json& live, const Json& desired) {
  if (!live.is_object() || !desired.is_object()) return Covers(live, desired);
  return std::ranges::all_of(desired.items(), [&](const auto& item) {
    const auto found = live.find(item.key());
    return found != live.end() &&
           (Covers(*found, item.value()) || SameQuantity(*found, item.value()));
  });
}

}  // namespace

bool SaysNothing(const Json& value) {
  return value.is_null() || (value.is_structured() && value.empty()) ||
         (value.is_string() && value.get_ref<const std::string&>().empty());
}

std::span<const kube::ResourceKind> OwnedKinds() { return kKinds; }

bool IsServed(const kube::ResourceKind& kind, const OptionalKinds& served) {
  if (kind == kSecurityContextConstraints) return served.security_context_constraints;
  if (kind == kServiceMonitors) return served.service_monitors;
  if (kind == kPrometheusRules) return served.prometheus_rules;
  return true;
}

namespace {

std::string ManagerImageOf(const Json& object) {
  const Json* containers = codec::Find(object, {"spec", "template", "spec", "initContainers"});
  if (containers == nullptr || !containers->is_array()) return "";
  for (const Json& container : *containers) {
    if (codec::FindString(container, {"name"}) == "k8s-driver-manager") {
      return codec::FindString(container, {"image"});
    }
  }
  return "";
}

}  // namespace

std::string DriverObjectOf(const Json& object) {
  if (codec::FindString(object, {"metadata", "labels", api::kStateLabel}) != kDriverState)
    return "";
  std::string name =
      codec::FindString(object, {"spec", "template", "spec", "nodeSelector", api::kDriverOwner});
  const Json* owners = codec::Find(object, {"metadata", "ownerReferences"});
  if (owners == nullptr || owners->empty()) return name;
  const auto controller = kube::ControllerOf(object);
  const bool its_own = owners->size() == 1 && controller && controller->kind == "NVIDIADriver" &&
                       controller->api_version.starts_with("nvidia.com/") &&
                       controller->name == name;
  return its_own ? name : "";
}

std::string AppliedHash(const Json& object) {
  return codec::FindString(object, {"metadata", "annotations", api::kLastAppliedHash});
}

OwnedObject ReadOwned(const Json& object) {
  OwnedObject owned;
  owned.uid = codec::FindString(object, {"metadata", "uid"});
  owned.state = codec::FindString(object, {"metadata", "labels", api::kStateLabel});
  owned.hash = AppliedHash(object);
  if (const auto owner = kube::ControllerOf(object)) owned.owner_uid = owner->uid;
  owned.version =
      base::ParseUnsigned(codec::FindString(object, {"metadata", "resourceVersion"})).value_or(0);
  owned.deleting = codec::Find(object, {"metadata", "deletionTimestamp"}) != nullptr;
  // Of ConfigMaps that are not ours only the data matters.
  if (!owned.state.empty()) owned.fingerprint = FingerprintOf(object);
  owned.daemonset = {
      .generation = codec::IntegerAt(object, {"metadata", "generation"}),
      .observed_generation = codec::IntegerAt(object, {"status", "observedGeneration"}),
      .desired = codec::IntegerAt(object, {"status", "desiredNumberScheduled"}),
      .updated = codec::IntegerAt(object, {"status", "updatedNumberScheduled"}),
      .available = codec::IntegerAt(object, {"status", "numberAvailable"}),
      .unavailable = codec::IntegerAt(object, {"status", "numberUnavailable"})};
  owned.toolkit_runtime = ToolkitRuntimeOf(object);
  owned.manager_image = ManagerImageOf(object);
  owned.driver_object = DriverObjectOf(object);
  owned.driver_content =
      codec::FindString(object, {"metadata", "annotations", api::kDriverContent});
  if (const Json* data = codec::Find(object, {"data"}); data != nullptr && data->is_object()) {
    for (const auto& [key, value] : data->items()) owned.keys.push_back(key);
    owned.data_digest = std::to_string(base::HashFnv1a32(codec::ToJsonText(*data)));
  }
  return owned;
}

std::string SecretDigest(const Json& secret) {
  const Json* data = codec::Find(secret, {"data"});
  return std::to_string(base::HashFnv1a32(codec::FindString(secret, {"metadata", "uid"}) +
                                          codec::ToJsonText(data == nullptr ? Json() : *data)));
}

bool IsReady(const DaemonSetStatus& status) {
  if (status.observed_generation < status.generation) return false;
  if (status.desired == 0) return true;
  return status.unavailable == 0 && status.updated == status.desired &&
         status.available == status.desired;
}

bool HoldsQuantities(std::string_view member) { return member == "limits" || member == "requests"; }

bool Covers(const Json& live, const Json& desired) {
  if (desired.is_object()) {
    if (!live.is_object()) return desired.empty() && live.is_null();
    for (const auto& [name, value] : desired.items()) {
      const auto found = live.find(name);
      if (found == live.end()) {
        if (!SaysNothing(value)) return false;
      } else if (HoldsQuantities(name) ? !CoversQuantities(*found, value)
                                       : !Covers(*found, value)) {
        return false;
      }
    }
    return true;
  }
  if (desired.is_array()) {
    return live.is_array() && live.size() == desired.size() &&
           std::ranges::equal(live, desired, Covers);
  }
  return live == desired;
}

const kube::ResourceKind* KindOf(const Json& object) {
  const std::string version = codec::FindString(object, {"apiVersion"});
  const std::string name = codec::FindString(object, {"kind"});
  for (const kube::ResourceKind& kind : kKinds) {
    if (kind.kind == name && kind.api_version() == version) return &kind;
  }
  return name == "RuntimeClass" ? &kRuntimeClassesBeta : nullptr;
}

}  // namespace pitcrew::desired
