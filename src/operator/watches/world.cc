#include "operator/watches/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "base/strings.h"
#include "desired/cluster_kinds.h"
#include "desired/node_labels.h"
#include "kube/projection.h"
#include "operator/metrics/collectors.h"

namespace pitcrew::gpu_operator {
namespace {

using codec::Json;

// Whether the definition of that name exists and is served.
base::Result<bool> IsServed(kube::Client& client, std::string_view definition,
                            const io::StopToken& stop) {
  const auto found = client.Get(kube::kCustomResourceDefinitions,
                                {.namespace_name = "", .name = std::string(definition)}, stop);
  if (found) return desired::IsEstablished(*found);
  if (found.error().code == base::Code::kNotFound) return false;
  return base::Fail(found.error());
}

}  // namespace

base::Result<ClusterIdentity> ReadClusterIdentity(kube::Client& client, const io::StopToken& stop) {
  ClusterIdentity identity;
  TRY_ASSIGN(const auto version, client.Version(stop));
  identity.kubernetes_version = version.git_version;
  TRY_ASSIGN(const bool openshift, client.Serves(desired::kClusterVersions, stop));
  if (openshift) {
    TRY_ASSIGN(const Json cluster_version,
               client.Get(desired::kClusterVersions, desired::kClusterVersionKey, stop));
    TRY_ASSIGN(identity.openshift_version, desired::OpenShiftVersionOf(cluster_version));
  }
  identity.kinds.security_context_constraints = !identity.openshift_version.empty();
  TRY_ASSIGN(identity.kinds.service_monitors,
             IsServed(client, desired::kServiceMonitorDefinition, stop));
  TRY_ASSIGN(identity.kinds.prometheus_rules,
             IsServed(client, desired::kPrometheusRuleDefinition, stop));
  TRY_ASSIGN(identity.gpu_clusters, IsServed(client, desired::kGpuClusterDefinition, stop));
  TRY_ASSIGN(identity.nvidia_drivers, IsServed(client, desired::kNvidiaDriverDefinition, stop));
  return identity;
}

void Fleet::Count(const kube::Change<desired::Node>& change) {
  const std::lock_guard lock(mutex_);
  if (change.before != nullptr) totals_.Remove(*change.before);
  if (change.now != nullptr) totals_.Add(*change.now);
}

Fleet::Sizes Fleet::sizes() const {
  const std::lock_guard lock(mutex_);
  return {.gpu_nodes = totals_.gpu_nodes(), .losing = totals_.losing()};
}

desired::RuntimeCounts Fleet::runtimes() const {
  const std::lock_guard lock(mutex_);
  return totals_.runtimes();
}

void Fleet::Fill(desired::Facts& facts) const {
  const std::lock_guard lock(mutex_);
  totals_.Fill(facts);
}

World::World(const std::shared_ptr<kube::Client>& api, std::string own_namespace,
             ClusterIdentity cluster, const desired::OperandTable& operand_table,
             desired::LabelKeys more_node_labels)
    : client(api),
      operator_namespace(std::move(own_namespace)),
      identity(std::move(cluster)),
      operands(operand_table),
      nodes(api, kube::kNodes,
            [more_node_labels](std::string_view raw) {
              return desired::ReadNodeText(raw, more_node_labels);
            }),
      policies(api, desired::kClusterPolicies,
               kube::ProjectJson<desired::PolicyView>(desired::ReadPolicyView),
               {.opened =
                    [this] {
                      if (server_answered) server_answered();
                    }}),
      inventory(api, operator_namespace, identity.kinds),
      more_node_labels_(std::move(more_node_labels)) {
  if (identity.gpu_clusters) {
    gpu_clusters.emplace(
        api, desired::kGpuClusters,
        kube::ProjectJson<bool>([](const Json&) -> base::Result<bool> { return true; }));
  }
  if (identity.nvidia_drivers) {
    drivers.emplace(api, desired::kNvidiaDrivers,
                    kube::ProjectJson<desired::DriverView>(desired::ReadDriverView));
    drivers->AddHandler([this](const kube::Change<desired::DriverView>&) {
      const std::lock_guard lock(assignment_mutex_);
      assignment_ = nullptr;
    });
  }
  nodes.AddHandler([this](const kube::Change<desired::Node>& change) { fleet.Count(change); });
}

void World::Stop() {
  nodes.Stop();
  policies.Stop();
  if (gpu_clusters) gpu_clusters->Stop();
  if (drivers) drivers->Stop();
  for (Inventory::Kind& kind : inventory.kinds()) kind.informer->Stop();
}

void World::Expose(prom::Exposition& exposition) const {
  ExposeWatch("nodes", nodes.status(), nodes.store().size(), exposition);
  ExposeWatch("clusterpolicies", policies.status(), policies.store().size(), exposition);
  if (gpu_clusters) {
    ExposeWatch("gpuclusters", gpu_clusters->status(), gpu_clusters->store().size(), exposition);
  }
  if (drivers) {
    ExposeWatch("nvidiadrivers", drivers->status(), drivers->store().size(), exposition);
  }
  for (const Inventory::Kind& kind : inventory.kinds()) {
    ExposeWatch(kind.kind->plural, kind.informer->status(), kind.informer->store().size(),
                exposition);
  }
}

std::shared_ptr<const desired::PolicyView> World::ActivePolicy() const {
  std::shared_ptr<const desired::PolicyView> active;
  for (const auto& [key, view] : policies.store().Snapshot()) {
    if (view == nullptr || view->deleting) continue;
    if (active == nullptr || desired::Precedes(*view, *active)) active = view;
  }
  return active;
}

std::vector<std::string> World::GpuClusters() const {
  std::vector<std::string> names;
  if (!gpu_clusters) return names;
  for (const auto& [key, exists] : gpu_clusters->store().Snapshot()) names.push_back(key.name);
  std::ranges::sort(names);
  return names;
}

std::vector<std::shared_ptr<const desired::DriverView>> World::Drivers() const {
  std::vector<std::shared_ptr<const desired::DriverView>> views;
  if (!drivers) return views;
  for (const auto& [key, view] : drivers->store().Snapshot()) {
    if (view != nullptr) views.push_back(view);
  }
  std::ranges::sort(views, {}, [](const auto& view) { return view->driver.name; });
  return views;
}

std::shared_ptr<const desired::DriverAssignment> World::Assignment() const {
  if (!drivers || !drivers->store().synced()) return nullptr;
  std::shared_ptr<const desired::DriverAssignment> assignment;
  {
    const std::lock_guard lock(assignment_mutex_);
    if (assignment_ == nullptr) {
      assignment_ = std::make_shared<const desired::DriverAssignment>(Drivers());
    }
    assignment = assignment_;
  }
  return AskForLabels(assignment->keys()).empty() ? assignment : nullptr;
}

desired::NodePolicy World::NodePolicyFor(const api::ClusterPolicy& policy) const {
  desired::NodePolicy result = desired::NodePolicyOf(policy, NodeMainRuntime());
  if (result.nvidia_driver_crd) result.drivers = Assignment();
  return result;
}

std::vector<std::shared_ptr<const desired::Node>> World::AllNodes() const {
  std::vector<std::shared_ptr<const desired::Node>> all;
  for (const auto& [key, node] : nodes.store().Snapshot()) all.push_back(node);
  return all;
}

desired::LabelKeys World::AskForLabels(desired::LabelKeys keys) const {
  std::erase_if(keys, [&](const std::string& key) {
    return desired::IsAlwaysKept(key) || more_node_labels_.contains(key);
  });
  if (!keys.empty() && node_labels_wanted) node_labels_wanted(keys);
  return keys;
}

desired::StandingToolkits World::Toolkits() const {
  desired::StandingToolkits standing;
  const auto* daemonsets = inventory.StoreOf(kube::kDaemonSets);
  const auto add = [&](const std::string& name) {
    const auto found = daemonsets->Find({.namespace_name = operator_namespace, .name = name});
    if (!found.is_present() || (*found.value())->deleting) return;
    if (const auto runtime = (*found.value())->toolkit_runtime) {
      desired::AddStandingToolkit(standing, name, *runtime);
    }
  };
  add(std::string(desired::kToolkitDaemonSet));
  for (const desired::Runtime runtime : desired::kRuntimes)
    add(desired::ToolkitDaemonSetName(runtime));
  return standing;
}

std::optional<desired::Runtime> World::NodeMainRuntime() const {
  return desired::NodeMainRuntime(identity.openshift_version, fleet.runtimes(), Toolkits());
}

desired::Facts World::NodeFacts() const {
  desired::Facts facts;
  facts.toolkits = Toolkits();
  for (const auto& [key, daemonset] : inventory.StoreOf(kube::kDaemonSets)->Snapshot()) {
    if (daemonset != nullptr && !daemonset->deleting && !daemonset->driver_content.empty()) {
      facts.driver_contents[key.name] = daemonset->driver_content;
    }
  }
  facts.kubernetes_version = identity.kubernetes_version;
  facts.openshift_version = identity.openshift_version;
  facts.service_monitors = identity.kinds.service_monitors;
  facts.prometheus_rules = identity.kinds.prometheus_rules;
  facts.driver_objects = identity.nvidia_drivers;
  fleet.Fill(facts);
  return facts;
}

base::Status World::KeepNodeLabels(const desired::LabelKeys& keys) const {
  const desired::LabelKeys wanted = AskForLabels(keys);
  if (wanted.empty()) return {};
  return base::Fail(base::Unavailable(
      "NodeLabelsNotRead",
      fmt::format("nodes are being listed again, now with their label {}", *wanted.begin())));
}

}  // namespace pitcrew::gpu_operator
