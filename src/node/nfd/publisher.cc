#include "node/nfd/publisher.h"

#include <fmt/format.h>

#include "base/log.h"
#include "node/nfd/resources.h"

namespace pitcrew::node::nfd {
namespace {

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

}  // namespace pitcrew::node::nfd
