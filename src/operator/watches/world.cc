#include "operator/world.h"

#include <algorithm>
#include <tuple>

#include "base/strings.h"
#include "kube/projection.h"
#include "operator/collectors.h"
#include "operator/node_labels.h"

namespace pitcrew::gpu_operator {
namespace {

using codec::Json;

// Whether the definition of that name exists and is served.
base::Result<bool> IsServed(kube::Client& client, std::string_view definition,
                            const io::StopToken& stop) {
  const auto found = client.Get(kube::kCustomResourceDefinitions,
                                {.namespace_name = "", .name = std::string(definition)}, stop);
  if (found) return IsEstablished(*found);
  if (found.error().code == base::Code::kNotFound) return false;
  return base::Fail(found.error());
}

}  // namespace

bool IsEstablished(const Json& definition) {
  const Json* conditions = codec::Find(definition, {"status", "conditions"});
  if (conditions == nullptr || !conditions->is_array()) return false;
  for (const Json& condition : *conditions) {
    if (codec::FindString(condition, {"type"}) == "Established") {
      return codec::FindString(condition, {"status"}) == "True";
    }
  }
  return false;
}

base::Result<PolicyView> ReadPolicyView(const Json& object) {
  TRY_ASSIGN(auto policy, api::ReadClusterPolicy(object));
  PolicyView view;
  view.policy = std::move(policy);
  if (const Json* status = codec::Find(object, {"status"})) view.status = *status;
  view.version =
      base::ParseUnsigned(codec::FindString(object, {"metadata", "resourceVersion"})).value_or(0);
  view.deleting = codec::Find(object, {"metadata", "deletionTimestamp"}) != nullptr;
  if (const Json* finalizers = codec::Find(object, {"metadata", "finalizers"});
      view.deleting && finalizers != nullptr && finalizers->is_array()) {
    view.orphans = std::ranges::find(*finalizers, Json("orphan")) != finalizers->end();
  }
  view.allow_mass_removal =
      codec::FindString(object, {"metadata", "annotations", kAllowMassRemoval}) == "true";
  return view;
}

base::Result<ClusterIdentity> ReadClusterIdentity(kube::Client& client, const io::StopToken& stop) {
  ClusterIdentity identity;
  TRY_ASSIGN(const auto version, client.Version(stop));
  identity.kubernetes_version = version.git_version;
  TRY_ASSIGN(const bool openshift, client.Serves(kClusterVersions, stop));
  if (openshift) {
    TRY_ASSIGN(const Json cluster_version, client.Get(kClusterVersions, kClusterVersionKey, stop));
    TRY_ASSIGN(identity.openshift_version, OpenShiftVersionOf(cluster_version));
  }
  identity.kinds.security_context_constraints = !identity.openshift_version.empty();
  TRY_ASSIGN(identity.kinds.service_monitors, IsServed(client, kServiceMonitorDefinition, stop));
  TRY_ASSIGN(identity.kinds.prometheus_rules, IsServed(client, kPrometheusRuleDefinition, stop));
  return identity;
}

void Fleet::Count(const kube::Change<Node>& change) {
  const std::lock_guard lock(mutex_);
  if (change.before != nullptr) totals_.Remove(*change.before);
  if (change.now != nullptr) totals_.Add(*change.now);
}

Fleet::Sizes Fleet::sizes() const {
  const std::lock_guard lock(mutex_);
  return {.gpu_nodes = totals_.gpu_nodes(), .losing = totals_.losing()};
}

RuntimeCounts Fleet::runtimes() const {
  const std::lock_guard lock(mutex_);
  return totals_.runtimes();
}

void Fleet::Tell(Facts& facts) const {
  const std::lock_guard lock(mutex_);
  totals_.Tell(facts);
}

World::World(std::shared_ptr<kube::Client> api, std::string own_namespace, ClusterIdentity cluster)
    : client(api),
      operator_namespace(std::move(own_namespace)),
      identity(std::move(cluster)),
      nodes(api, kube::kNodes, ReadNodeText),
      policies(api, kClusterPolicies, kube::ProjectJson<PolicyView>(ReadPolicyView),
               {.opened =
                    [this] {
                      if (server_answered) server_answered();
                    }}),
      inventory(api, operator_namespace, identity.kinds) {
  nodes.AddHandler([this](const kube::Change<Node>& change) { fleet.Count(change); });
}

void World::Stop() {
  nodes.Stop();
  policies.Stop();
  for (Inventory::Kind& kind : inventory.kinds()) kind.informer->Stop();
}

void World::Expose(Exposition& exposition) const {
  ExposeWatch("nodes", nodes.status(), nodes.store().size(), exposition);
  ExposeWatch("clusterpolicies", policies.status(), policies.store().size(), exposition);
  for (const Inventory::Kind& kind : inventory.kinds()) {
    ExposeWatch(kind.kind->plural, kind.informer->status(), kind.informer->store().size(),
                exposition);
  }
}

bool Precedes(const PolicyView& a, const PolicyView& b) {
  const auto age = [](const PolicyView& view) {
    return std::tie(view.policy.creation_timestamp, view.policy.name);
  };
  return age(a) < age(b);
}

std::shared_ptr<const PolicyView> World::ActivePolicy() const {
  std::shared_ptr<const PolicyView> active;
  for (const auto& [key, view] : policies.store().Snapshot()) {
    if (view == nullptr || view->deleting) continue;
    if (active == nullptr || Precedes(*view, *active)) active = view;
  }
  return active;
}

StandingToolkits World::Toolkits() const {
  StandingToolkits standing;
  const auto* daemonsets = inventory.StoreOf(kube::kDaemonSets);
  const auto add = [&](const std::string& name) {
    const auto found = daemonsets->Find({.namespace_name = operator_namespace, .name = name});
    if (!found.is_present() || (*found.value())->deleting) return;
    if (const auto runtime = (*found.value())->toolkit_runtime) {
      AddStandingToolkit(standing, name, *runtime);
    }
  };
  add(std::string(kToolkitDaemonSet));
  for (const Runtime runtime : kRuntimes) add(ToolkitDaemonSetName(runtime));
  return standing;
}

std::optional<Runtime> World::NodeMainRuntime() const {
  if (!identity.openshift_version.empty()) return std::nullopt;
  return MainRuntime(fleet.runtimes(), Toolkits());
}

Facts World::NodeFacts() const {
  Facts facts;
  facts.toolkits = Toolkits();
  facts.kubernetes_version = identity.kubernetes_version;
  facts.openshift_version = identity.openshift_version;
  facts.service_monitors = identity.kinds.service_monitors;
  facts.prometheus_rules = identity.kinds.prometheus_rules;
  fleet.Tell(facts);
  return facts;
}

}  // namespace pitcrew::gpu_operator
