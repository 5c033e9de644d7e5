#include "node/nfd/publisher.h"

#include <fmt/format.h>

#include "base/log.h"
#include "node/nfd/resources.h"

namespace pitcrew::node::nfd {
namespace {

constexpr int kMostConflicts = 5;

codec::Json Reference(std::string_view api_version, std::string_view kind, const std::string& name,
                      const std::string& uid) {
  return {{"apiVersion", api_version},
          {"kind", kind},
          {"name", name},
          {"uid", uid},
          {"blockOwnerDeletion", false}};
}

// The DaemonSet that owns the worker's pod; null when it has none.
base::Result<codec::Json> DaemonSetOf(kube::Client& client, const WorkerIdentity& identity,
                                      const io::StopToken& stop) {
  TRY_ASSIGN(const auto pod,
             client.Get(kube::kPods, {identity.namespace_name, identity.pod_name}, stop));
  codec::Json found;
  const auto* owners = codec::Find(pod, {"metadata", "ownerReferences"});
  if (owners == nullptr || !owners->is_array()) return found;
  for (const auto& owner : *owners) {
    if (codec::FindString(owner, {"apiVersion"}) != "apps/v1" ||
        codec::FindString(owner, {"kind"}) != "DaemonSet") {
      continue;
    }
    if (!found.is_null()) {
      return base::Fail(
          base::Invalid("SeveralDaemonSets",
                        fmt::format("pod {} has two DaemonSets as owners", identity.pod_name)));
    }
    found = owner;
    found["blockOwnerDeletion"] = false;
  }
  return found;
}

// A collection without null and empty members at its top: what the API server may leave out.
codec::Json Normalised(const codec::Json* value) {
  if (value == nullptr || value->is_null() || value->empty()) return {};
  return *value;
}

}  // namespace

base::Result<codec::Json> ResolveOwners(kube::Client& client, const WorkerIdentity& identity,
                                        const std::vector<Owner>& owners,
                                        const io::StopToken& stop) {
  auto references = codec::Json::array();
  for (const auto owner : owners) {
    if (owner == Owner::kNode) {
      if (identity.node_name.empty()) {
        return base::Fail(base::Invalid("NoNodeName", "owner \"node\" needs NODE_NAME"));
      }
      TRY_ASSIGN(const auto node, client.Get(kube::kNodes, {"", identity.node_name}, stop));
      references.push_back(Reference("v1", "Node", identity.node_name,
                                     codec::FindString(node, {"metadata", "uid"})));
      continue;
    }
    if (identity.pod_name.empty() || (owner == Owner::kPod && identity.pod_uid.empty())) {
      base::LogInfo(
          "The NodeFeature gets no owner reference to the worker's pod or DaemonSet: "
          "POD_NAME or POD_UID is not set");
      continue;
    }
    if (owner == Owner::kPod) {
      references.push_back(Reference("v1", "Pod", identity.pod_name, identity.pod_uid));
      continue;
    }
    TRY_ASSIGN(auto daemon_set, DaemonSetOf(client, identity, stop));
    if (!daemon_set.is_null()) references.push_back(std::move(daemon_set));
  }
  return references;
}

codec::Json MakeNodeFeature(const WorkerIdentity& identity, const codec::Json& owners,
                            const codec::Json& spec) {
  codec::Json annotations = {{std::string(kWorkerVersion), identity.version}};
  if (!identity.pod_uid.empty()) annotations[std::string(kWorkerPodUid)] = identity.pod_uid;
  codec::Json metadata = {{"name", identity.node_name},
                          {"namespace", identity.namespace_name},
                          {"labels", {{std::string(kNodeNameLabel), identity.node_name}}},
                          {"annotations", std::move(annotations)}};
  if (!owners.empty()) metadata["ownerReferences"] = owners;
  return {{"apiVersion", kNodeFeatures.api_version()},
          {"kind", kNodeFeatures.kind},
          {"metadata", std::move(metadata)},
          {"spec", spec}};
}

bool IsUpToDate(const codec::Json& live, const codec::Json& desired) {
  for (const auto* part : {"labels", "annotations", "ownerReferences"}) {
    if (Normalised(codec::Find(live, {"metadata", part})) !=
        Normalised(codec::Find(desired, {"metadata", part}))) {
      return false;
    }
  }
  if (Normalised(codec::Find(live, {"spec", "labels"})) !=
      Normalised(codec::Find(desired, {"spec", "labels"}))) {
    return false;
  }
  for (const auto* kind : {"flags", "attributes", "instances"}) {
    if (Normalised(codec::Find(live, {"spec", "features", kind})) !=
        Normalised(codec::Find(desired, {"spec", "features", kind}))) {
      return false;
    }
  }
  return true;
}

base::Result<codec::Json> NodeFeaturePublisher::CurrentSpec(const io::StopToken& stop) {
  auto live = client_->Get(kNodeFeatures, {identity_.namespace_name, identity_.node_name}, stop);
  if (!live) {
    if (live.error().code == base::Code::kNotFound) return codec::Json();
    return base::Fail(std::move(live).error());
  }
  const auto* spec = codec::Find(*live, {"spec"});
  return spec == nullptr ? codec::Json() : *spec;
}

base::Result<NodeFeaturePublisher::Outcome> NodeFeaturePublisher::PublishOnce(
    const codec::Json& desired, const io::StopToken& stop) {
  const auto live =
      client_->Get(kNodeFeatures, {identity_.namespace_name, identity_.node_name}, stop);
  if (!live) {
    if (live.error().code != base::Code::kNotFound) return base::Fail(live.error());
    TRY_ASSIGN(const auto created, client_->Create(kNodeFeatures, desired, {}, stop));
    return Outcome::kCreated;
  }
  if (IsUpToDate(*live, desired)) return Outcome::kUnchanged;
  auto next = *live;
  next["spec"] = desired.at("spec");
  for (const auto* part : {"labels", "annotations", "ownerReferences"}) {
    next["metadata"].erase(part);
    if (desired.at("metadata").contains(part)) next["metadata"][part] = desired["metadata"][part];
  }
  TRY_ASSIGN(const auto updated, client_->Update(kNodeFeatures, next, {}, stop));
  return Outcome::kUpdated;
}

base::Result<NodeFeaturePublisher::Outcome> NodeFeaturePublisher::Publish(
    const codec::Json& owners, const codec::Json& spec, const io::StopToken& stop) {
  const auto desired = MakeNodeFeature(identity_, owners, spec);
  for (int tries = 1;; ++tries) {
    auto outcome = PublishOnce(desired, stop);
    if (outcome) return outcome;
    const bool raced = outcome.error().code == base::Code::kConflict ||
                       outcome.error().code == base::Code::kExists;
    if (!raced || tries == kMostConflicts) {
      return base::Fail(
          outcome.error().Within(fmt::format("publish NodeFeature {}", identity_.node_name)));
    }
  }
}

}  // namespace pitcrew::node::nfd
