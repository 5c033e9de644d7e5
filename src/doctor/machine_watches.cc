#include "doctor/machine_watches.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "desired/cluster_kinds.h"
#include "doctor/source.h"
#include "kubevirt/kinds.h"

namespace pitcrew::doctor {
namespace {

using codec::Json;
using fleet::Cluster;
using fleet::Kind;

constexpr std::string_view kDefinitions[] = {
    kubevirt::kKubeVirtDefinition, kubevirt::kVirtualMachineDefinition,
    kubevirt::kInstanceDefinition, kubevirt::kHyperConvergedDefinition};

// Objects of a list lack what they are.
Json Named(const Json& object, const kube::ResourceKind& kind) {
  Json whole = object;
  whole["apiVersion"] = kind.api_version();
  whole["kind"] = kind.kind;
  return whole;
}

template <const kube::ResourceKind& kKind>
fleet::Machine ReadMachineOf(const Json& object) {
  return fleet::ReadMachine(Named(object, kKind));
}

using Permission = std::optional<fleet::Permission>;
template <const kube::ResourceKind& kKind>
Permission ReadPermissionOf(const Json& object) {
  return fleet::ReadPermission(Named(object, kKind));
}

void PutPermission(const Permission& permission, Cluster& cluster) {
  if (permission) cluster.permissions.push_back(*permission);
}

}  // namespace

MachineWatches::MachineWatches(std::shared_ptr<kube::Client> client,
                               std::shared_ptr<base::Bell> bell)
    : client_(std::move(client)), bell_(std::move(bell)) {}

MachineWatches::Definition MachineWatches::ReadDefinition(const Json& object) {
  return {.name = codec::FindString(object, {"metadata", "name"}),
          .established = desired::IsEstablished(object),
          .form = kubevirt::FormOfDefinition(object)};
}

void MachineWatches::WatchDefinitions() {
  if (!definitions_.empty()) return;
  for (const std::string_view name : kDefinitions) {
    kube::InformerOptions options;
    options.field_selector = fmt::format("metadata.name={}", name);
    definitions_.push_back(std::make_unique<kube::Informer<Definition>>(
        client_, kube::kCustomResourceDefinitions,
        kube::ProjectJson<Definition>(
            [](const Json& object) -> base::Result<Definition> { return ReadDefinition(object); }),
        RingingToo(std::move(options), bell_)));
    definitions_.back()->AddHandler([bell = bell_](const kube::Change<Definition>& change) {
      if (IsSeen(change)) bell->Ring();
    });
    definitions_.back()->Start();
  }
}

MachineWatches::Definition MachineWatches::Read(std::string_view definition) const {
  for (const auto& informer : definitions_) {
    const auto found =
        informer->store().Find({.namespace_name = "", .name = std::string(definition)});
    if (found.is_present()) return **found.value();
  }
  return {};
}

template <class View>
void MachineWatches::WatchWhere(bool served, const kube::ResourceKind& kind,
                                View (*read)(const Json&), void (*put)(const View&, Cluster&)) {
  auto& watch = watches_[fmt::format("{}/{}", kind.api_version(), kind.plural)];
  if (served == (watch != nullptr)) return;
  watch.reset();
  if (!served) return;
  watch = std::make_unique<WatchOf<View>>(client_, bell_, Kind::kMachines, kind, read, put,
                                          kube::InformerOptions());
  watch->Start();
}

void MachineWatches::WatchServed() {
  const auto served = [&](std::string_view definition) { return Read(definition).established; };
  WatchWhere<fleet::Machine>(served(kubevirt::kInstanceDefinition), kubevirt::kInstances,
                             ReadMachineOf<kubevirt::kInstances>, PutMachine);
  WatchWhere<fleet::Machine>(served(kubevirt::kVirtualMachineDefinition),
                             kubevirt::kVirtualMachines, ReadMachineOf<kubevirt::kVirtualMachines>,
                             PutMachine);
  WatchWhere<Permission>(served(kubevirt::kKubeVirtDefinition), kubevirt::kKubeVirts,
                         ReadPermissionOf<kubevirt::kKubeVirts>, PutPermission);
  const auto form = Read(kubevirt::kHyperConvergedDefinition).form;
  WatchWhere<Permission>(form == kubevirt::Form::kHyperConvergedV1Beta1,
                         kubevirt::kHyperConvergedsV1Beta1,
                         ReadPermissionOf<kubevirt::kHyperConvergedsV1Beta1>, PutPermission);
  WatchWhere<Permission>(form == kubevirt::Form::kHyperConvergedV1, kubevirt::kHyperConvergedsV1,
                         ReadPermissionOf<kubevirt::kHyperConvergedsV1>, PutPermission);
}

void MachineWatches::Put(Cluster& cluster) {
  cluster.Index();
  const auto* policy = cluster.active_policy();
  if (policy == nullptr || !policy->spec.sandbox.enabled) {
    watches_.clear();
    definitions_.clear();
    return;
  }
  WatchDefinitions();
  bool known = true;
  for (const auto& informer : definitions_) {
    const auto status = informer->status();
    known = known && status.synced;
    if (status.trouble) cluster.unread.emplace(Kind::kMachines, *status.trouble);
  }
  if (!known) return;
  WatchServed();
  Cluster seen;
  for (const auto& [kind, watch] : watches_) {
    if (watch == nullptr) continue;
    known = known && watch->synced();
    watch->Put(seen);
  }
  cluster.unread.merge(seen.unread);
  if (!known) return;
  cluster.machines = std::move(seen.machines);
  cluster.permissions = std::move(seen.permissions);
}

}  // namespace pitcrew::doctor
