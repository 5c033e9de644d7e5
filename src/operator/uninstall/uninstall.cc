#include "operator/uninstall/uninstall.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/log.h"
#include "desired/cluster_kinds.h"
#include "desired/namespace_labels.h"
#include "desired/node_cleanup.h"
#include "desired/owned_object.h"
#include "desired/predecessor.h"
#include "kube/await.h"
#include "kube/projection.h"
#include "operator/nodes/clean_up_node.h"
#include "operator/permitted_devices/restore.h"
#include "operator/roll_out/take_over.h"
#include "operator/watches/world.h"

namespace pitcrew::gpu_operator {
namespace {

using codec::Json;
using Deadline = std::chrono::steady_clock::time_point;
using Uids = std::set<std::string>;

struct Cleaning {
  const std::shared_ptr<kube::Client>& client;
  const UninstallOptions& options;
  Deadline deadline;
  const io::StopToken& stop;
};

base::Status Allow(const base::Status& status, base::Code code) {
  return !status && status.error().code == code ? base::Status{} : status;
}

struct Policies {
  Uids deleted;
  std::vector<std::string> kept;  // names
};

base::Result<Policies> DeletePolicies(const Cleaning& cleaning) {
  Policies policies;
  TRY_ASSIGN(const bool served, cleaning.client->Serves(desired::kClusterPolicies, cleaning.stop));
  if (!served) return policies;
  TRY_ASSIGN(const auto listed,
             cleaning.client->List(desired::kClusterPolicies, "", {}, cleaning.stop));
  for (const Json& policy : listed.items) {
    const kube::ObjectKey key = kube::KeyOf(policy);
    const std::string uid = codec::FindString(policy, {"metadata", "uid"});
    if (!cleaning.options.all_policies &&
        std::ranges::find(cleaning.options.policies, key.name) == cleaning.options.policies.end()) {
      policies.kept.push_back(key.name);
      continue;
    }
    base::LogInfo("deleting the ClusterPolicy", {{"name", key.name}});
    const auto deleted =
        cleaning.client->Delete(desired::kClusterPolicies, key, {.uid = uid}, cleaning.stop);
    TRY(Allow(deleted, base::Code::kNotFound));
    policies.deleted.insert(uid);
  }
  return policies;
}

// The NVIDIADrivers; they are nobody's part.
base::Result<Uids> DeleteDrivers(const Cleaning& cleaning) {
  Uids deleted;
  TRY_ASSIGN(const bool served, cleaning.client->Serves(desired::kNvidiaDrivers, cleaning.stop));
  if (!served) return deleted;
  TRY_ASSIGN(const auto listed,
             cleaning.client->List(desired::kNvidiaDrivers, "", {}, cleaning.stop));
  for (const Json& driver : listed.items) {
    const kube::ObjectKey key = kube::KeyOf(driver);
    const std::string uid = codec::FindString(driver, {"metadata", "uid"});
    base::LogInfo("deleting the NVIDIADriver", {{"name", key.name}});
    TRY(Allow(cleaning.client->Delete(desired::kNvidiaDrivers, key, {.uid = uid}, cleaning.stop),
              base::Code::kNotFound));
    deleted.insert(uid);
  }
  return deleted;
}

// Finalizers of others may hold an object.
base::Status AwaitOwnersGone(const Cleaning& cleaning, const kube::ResourceKind& kind,
                             const Uids& uids) {
  if (uids.empty()) return {};
  const auto gone =
      kube::AwaitGone(cleaning.client, kind, uids, {}, cleaning.stop, cleaning.deadline);
  return gone
             ? gone
             : base::Fail(gone.error().Within(fmt::format("wait until the {} is gone", kind.kind)));
}

// The garbage collector does the same in its own time. Whether there was anything.
base::Result<bool> DeleteOwned(const Cleaning& cleaning, const kube::ResourceKind& kind,
                               const Uids& owners) {
  kube::InformerOptions options;
  if (kind.namespaced) options.namespace_name = cleaning.options.operator_namespace;
  Uids asked;
  const auto done = [&](const kube::Store<desired::OwnedObject>& store) -> base::Result<bool> {
    bool left = false;
    for (const auto& [key, object] : store.Snapshot()) {
      if (object == nullptr || !owners.contains(object->owner_uid)) continue;
      left = true;
      if (object->deleting || !asked.insert(object->uid).second) continue;
      const auto deleted = cleaning.client->Delete(kind, key, {.uid = object->uid}, cleaning.stop);
      TRY(Allow(Allow(deleted, base::Code::kNotFound), base::Code::kConflict));
      // Otherwise somebody was faster.
      if (deleted) base::LogInfo("deleted", {{"kind", kind.kind}, {"name", key.ToString()}});
    }
    return !left;
  };
  const auto deleted = kube::Await<desired::OwnedObject>(
      cleaning.client, kind,
      kube::ProjectJson<desired::OwnedObject>(
          [](const Json& object) -> base::Result<desired::OwnedObject> {
            return desired::ReadOwned(object);
          }),
      options, done, cleaning.stop, cleaning.deadline);
  if (deleted) return !asked.empty();
  return base::Fail(deleted.error().Within(fmt::format("delete objects of kind {}", kind.kind)));
}

// Until a whole round finds nothing: an operator that has not yet heard that its policy is gone
// may write one more object behind us.
base::Status DeleteAllOwned(const Cleaning& cleaning, const Uids& owners) {
  TRY_ASSIGN(const ClusterIdentity identity, ReadClusterIdentity(*cleaning.client, cleaning.stop));
  const Inventory inventory(cleaning.client, cleaning.options.operator_namespace, identity.kinds);
  for (bool found = true; found;) {
    found = false;
    for (const Inventory::Kind& entry : inventory.kinds()) {
      TRY_ASSIGN(const bool deleted, DeleteOwned(cleaning, *entry.kind, owners));
      found = found || deleted;
    }
  }
  return {};
}

base::Status CleanUpNodes(const Cleaning& cleaning) {
  const auto left = kube::Await<desired::Node>(
      cleaning.client, kube::kNodes,
      [](std::string_view raw) { return desired::ReadNodeText(raw); }, {.page_size = 100},
      [&](const kube::Store<desired::Node>& store) -> base::Result<bool> {
        bool traces = false;
        for (const auto& [key, node] : store.Snapshot()) {
          if (node == nullptr || !desired::HasTraces(*node)) continue;
          traces = true;
          TRY(CleanUpNode(*cleaning.client, key.name, cleaning.stop));
        }
        return !traces;
      },
      cleaning.stop, cleaning.deadline);
  return left ? left : base::Fail(left.error().Within("clean up the nodes"));
}

base::Status CleanNamespace(const Cleaning& cleaning) {
  const kube::ObjectKey key{.namespace_name = "", .name = cleaning.options.operator_namespace};
  const auto found = cleaning.client->Get(kube::kNamespaces, key, cleaning.stop);
  if (!found) return Allow(base::Fail(found.error()), base::Code::kNotFound);
  const desired::Changes changes = desired::CleanUpNamespace(*found);
  Json patch = {{"metadata", Json::object()}};
  for (const auto& [name, value] : changes) {
    patch["metadata"]["labels"][name] = value ? Json(*value) : Json(nullptr);
  }
  const std::string annotation(desired::kNamespaceLabelsBefore);
  if (codec::Find(*found, {"metadata", "annotations", annotation}) != nullptr) {
    patch["metadata"]["annotations"][annotation] = nullptr;
  }
  if (patch["metadata"].empty()) return {};
  TRY(cleaning.client->Patch(kube::kNamespaces, key, kube::PatchType::kMerge, patch,
                             {.field_manager = std::string(desired::kFieldManager)},
                             cleaning.stop));
  return {};
}

}  // namespace

base::Status Uninstall(const std::shared_ptr<kube::Client>& client, const UninstallOptions& options,
                       const io::StopToken& stop) {
  const Cleaning cleaning{.client = client,
                          .options = options,
                          .deadline = std::chrono::steady_clock::now() + options.timeout,
                          .stop = stop};
  TRY_ASSIGN(const Policies policies, DeletePolicies(cleaning));
  TRY(AwaitOwnersGone(cleaning, desired::kClusterPolicies, policies.deleted));
  Uids owners = policies.deleted;
  if (options.all_policies) {
    TRY_ASSIGN(const Uids drivers, DeleteDrivers(cleaning));
    TRY(AwaitOwnersGone(cleaning, desired::kNvidiaDrivers, drivers));
    owners.insert(drivers.begin(), drivers.end());
  }
  if (!owners.empty()) TRY(DeleteAllOwned(cleaning, owners));
  if (!policies.kept.empty()) {
    base::LogInfo("another ClusterPolicy remains; the nodes keep their labels",
                  {{"name", policies.kept.front()}});
    return {};
  }
  TRY(CleanUpNodes(cleaning));
  TRY(CleanNamespace(cleaning));
  TRY(RestorePermittedDevices(*client, cleaning.deadline, stop));
  base::LogInfo("nothing of the operator is left on the nodes");
  return {};
}

}  // namespace pitcrew::gpu_operator
