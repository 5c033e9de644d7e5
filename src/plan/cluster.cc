#include "plan/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "base/strings.h"
#include "desired/node_totals.h"
#include "desired/owned_object.h"
#include "desired/removal_budget.h"
#include "desired/render.h"
#include "kubevirt/kinds.h"

namespace pitcrew::plan {
namespace {

using codec::Json;
using desired::Facts;
using desired::Node;
using desired::NodeTotals;
using snapshot::Coverage;
using snapshot::Snapshot;

// Major, minor and patch of "v1.31.4-eks-1"; nothing when it is no version.
std::optional<std::array<std::uint64_t, 3>> VersionNumbers(std::string_view text) {
  if (!text.starts_with('v')) return std::nullopt;
  text.remove_prefix(1);
  text = text.substr(0, text.find_first_of("-+"));
  const auto pieces = base::Split(text, '.');
  std::array<std::uint64_t, 3> numbers{};
  if (pieces.size() != numbers.size()) return std::nullopt;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto number = base::ParseUnsigned(pieces[i]);
    if (!number) return std::nullopt;
    numbers[i] = *number;
  }
  return numbers;
}

// The server is at least as new as the oldest kubelet, and what is rendered for that one works.
std::string LowestKubelet(const Snapshot& snapshot) {
  std::string lowest;
  std::optional<std::array<std::uint64_t, 3>> lowest_numbers;
  for (const auto& [key, node] : snapshot.All(kube::kNodes)) {
    const std::string version = codec::FindString(node, {"status", "nodeInfo", "kubeletVersion"});
    const auto numbers = VersionNumbers(version);
    if (!numbers || (lowest_numbers && *lowest_numbers <= *numbers)) continue;
    lowest = version;
    lowest_numbers = numbers;
  }
  return lowest;
}

base::Status CheckReadable(const Snapshot& snapshot, const kube::ResourceKind& kind) {
  if (const base::Error* error = snapshot.error(kind)) {
    return base::Fail(error->Within(fmt::format("{} cannot be read", kind.plural)));
  }
  return {};
}

// Whether a definition exists and is served. One in a file need not tell its status.
base::Result<bool> IsServed(const Snapshot& snapshot, std::string_view definition) {
  const auto found = snapshot.Find(kube::kCustomResourceDefinitions,
                                   {.namespace_name = "", .name = std::string(definition)});
  if (found.is_unknown()) return base::Fail(found.error()->Within(definition));
  if (found.is_absent()) return false;
  return codec::Find(**found.value(), {"status", "conditions"}) == nullptr ||
         desired::IsEstablished(**found.value());
}

base::Result<Facts> FactsOfCluster(const Snapshot& snapshot,
                                   const std::optional<std::string>& kubernetes_version) {
  Facts facts;
  facts.kubernetes_version = kubernetes_version                  ? *kubernetes_version
                             : snapshot.server_version().empty() ? LowestKubelet(snapshot)
                                                                 : snapshot.server_version();
  const auto version = snapshot.Find(desired::kClusterVersions, desired::kClusterVersionKey);
  if (version.is_unknown()) return base::Fail(*version.error());
  if (version.is_present()) {
    TRY_ASSIGN(facts.openshift_version, desired::OpenShiftVersionOf(**version.value()));
  }
  TRY_ASSIGN(facts.service_monitors, IsServed(snapshot, desired::kServiceMonitorDefinition));
  TRY_ASSIGN(facts.prometheus_rules, IsServed(snapshot, desired::kPrometheusRuleDefinition));
  return facts;
}

desired::FactSource SourceOf(const Snapshot& snapshot, const std::string& operator_namespace) {
  const auto own = [operator_namespace](const std::string& name) {
    return kube::ObjectKey{.namespace_name = operator_namespace, .name = name};
  };
  return {.driver_toolkit =
              [&snapshot] {
                return desired::Transform(
                    snapshot.Find(desired::kImageStreams, desired::kDriverToolkitKey),
                    [](const Json* object) { return desired::DriverToolkitOf(*object); });
              },
          .proxy =
              [&snapshot] {
                return desired::Transform(
                    snapshot.Find(desired::kProxies, desired::kClusterProxyKey),
                    [](const Json* object) { return desired::ProxyOf(*object); });
              },
          .config_map =
              [&snapshot, own](const std::string& name) {
                return desired::Transform(
                    snapshot.Find(kube::kConfigMaps, own(name)), [](const Json* object) {
                      desired::OwnedObject owned = desired::ReadOwned(*object);
                      return desired::ConfigMapData{.keys = std::move(owned.keys),
                                                    .digest = std::move(owned.data_digest)};
                    });
              },
          .secret =
              [&snapshot, own](const std::string& name) {
                return desired::Transform(
                    snapshot.Find(kube::kSecrets, own(name)),
                    [](const Json* object) { return desired::SecretDigest(*object); });
              }};
}

void ApplyChanges(Json& target, const desired::Changes& changes) {
  for (const auto& [key, value] : changes) {
    if (value) {
      target[key] = *value;
    } else {
      target.erase(key);
    }
  }
}

// What the operator keeps of a node that is labelled as planned.
base::Result<Node> Labelled(const PlannedNode& node, const desired::LabelKeys& keys) {
  Json object = NodeAfter(*node.live, node.decision.labels, node.decision.annotations);
  if (const Json* info = codec::Find(*node.live, {"status", "nodeInfo"})) {
    object["status"]["nodeInfo"] = *info;
  }
  return desired::ReadNode(object, keys);
}

// What the DaemonSets that the operator finds again tell of toolkits and drivers.
void ReadDaemonSets(const Snapshot& snapshot, const std::string& operator_namespace, Facts& facts) {
  for (const auto& [key, object] : snapshot.All(kube::kDaemonSets)) {
    if (key.namespace_name != operator_namespace) continue;
    const desired::OwnedObject owned = desired::ReadOwned(object);
    if (owned.state.empty() || owned.deleting) continue;
    if (owned.toolkit_runtime) {
      desired::AddStandingToolkit(facts.toolkits, key.name, *owned.toolkit_runtime);
    }
    if (!owned.driver_content.empty()) facts.driver_contents[key.name] = owned.driver_content;
  }
}

// What the operator would do to a node that has been changed as decided.
base::Status DecideFurther(const desired::NodePolicy& node_policy, const desired::LabelKeys& keys,
                           PlannedNode& node) {
  TRY_ASSIGN(const Node labelled, Labelled(node, keys));
  const desired::NodeDecision more = desired::DecideNode(labelled, node_policy);
  for (const auto& [key, value] : more.labels) node.decision.labels[key] = value;
  for (const auto& [key, value] : more.annotations) node.decision.annotations[key] = value;
  return {};
}

// Decides every node, first alone, then with the guard over all.
base::Status DecideNodes(const std::vector<Node>& nodes, const NodeTotals& totals,
                         const desired::PolicyView& policy, const desired::NodePolicy& node_policy,
                         PlannedCluster& cluster) {
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    cluster.nodes[i].decision = desired::DecideNode(nodes[i], node_policy);
    // The owner of its driver comes after the label that says that there is a GPU.
    if (node_policy.drivers != nullptr && !cluster.nodes[i].decision.empty()) {
      TRY(DecideFurther(node_policy, node_policy.drivers->keys(), cluster.nodes[i]));
    }
  }
  // A snapshot does not tell which labels went before it.
  const desired::RemovalBudget budget;
  cluster.removals_held = budget.WhyHeld(totals.gpu_nodes(), totals.losing(),
                                         policy.allow_mass_removal, base::SteadyClock::now());
  for (PlannedNode& node : cluster.nodes) {
    node.held = node.decision.removes_gpu && !cluster.removals_held.empty();
    if (node.held) node.decision = {};
  }
  return {};
}

// The nodes as they will be labelled, all together.
base::Result<NodeTotals> TotalsOfLabelled(const std::vector<Node>& nodes,
                                          const std::vector<PlannedNode>& planned,
                                          const desired::LabelKeys& keys, PlannedCluster& cluster) {
  NodeTotals totals;
  cluster.labelled.clear();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (planned[i].decision.empty()) {
      totals.Add(nodes[i]);
      if (cluster.drivers != nullptr) {
        cluster.labelled.push_back(std::make_shared<const Node>(nodes[i]));
      }
    } else {
      TRY_ASSIGN(Node node, Labelled(planned[i], keys));
      totals.Add(node);
      if (cluster.drivers != nullptr) {
        cluster.labelled.push_back(std::make_shared<const Node>(std::move(node)));
      }
    }
  }
  return totals;
}

// Labels all nodes, and gives the facts that follow from the labelled ones. What the labels depend
// on may follow from labels: the main runtime is that of nodes which have a GPU.
base::Result<Facts> LabelNodes(const Snapshot& snapshot, const Facts& facts,
                               const desired::PolicyView& policy, PlannedCluster& cluster) {
  std::vector<Node> nodes;
  NodeTotals totals;
  const desired::LabelKeys keys =
      cluster.drivers == nullptr ? desired::LabelKeys{} : cluster.drivers->keys();
  for (const auto& [key, object] : snapshot.All(kube::kNodes)) {
    TRY_ASSIGN(Node node, desired::ReadNode(object, keys));
    totals.Add(node);
    nodes.push_back(std::move(node));
    cluster.nodes.push_back({.live = &object, .decision = {}, .held = false});
  }
  constexpr int kRounds = 3;  // the second one changes nothing but in the oddest of clusters
  Facts before = facts;
  totals.Fill(before);
  for (int round = 0;; ++round) {
    cluster.main_runtime =
        desired::NodeMainRuntime(before.openshift_version, before.runtimes, before.toolkits);
    desired::NodePolicy node_policy = desired::NodePolicyOf(policy.policy, cluster.main_runtime);
    node_policy.drivers = cluster.drivers;
    TRY(DecideNodes(nodes, totals, policy, node_policy, cluster));
    TRY_ASSIGN(const NodeTotals labelled, TotalsOfLabelled(nodes, cluster.nodes, keys, cluster));
    Facts after = facts;
    labelled.Fill(after);
    if (after.runtime() == before.runtime() || round == kRounds) return after;
    before = std::move(after);
  }
}

}  // namespace

Json NodeAfter(const Json& object, const desired::Changes& labels,
               const desired::Changes& annotations) {
  Json after = {{"apiVersion", "v1"},
                {"kind", "Node"},
                {"metadata", {{"name", codec::FindString(object, {"metadata", "name"})}}}};
  for (const auto& [member, changes] :
       {std::pair("labels", &labels), std::pair("annotations", &annotations)}) {
    const Json* before = codec::Find(object, {"metadata", member});
    Json values = before != nullptr && before->is_object() ? *before : Json::object();
    ApplyChanges(values, *changes);
    if (!values.empty()) after["metadata"][member] = std::move(values);
  }
  return after;
}

base::Result<const Json*> ActivePolicy(const Snapshot& snapshot) {
  TRY(CheckReadable(snapshot, desired::kClusterPolicies));
  const Json* active = nullptr;
  desired::PolicyView active_view;
  for (const auto& [key, object] : snapshot.All(desired::kClusterPolicies)) {
    TRY_ASSIGN(auto view, desired::ReadPolicyView(object));
    if (view.deleting || (active != nullptr && !desired::Precedes(view, active_view))) continue;
    active = &object;
    active_view = std::move(view);
  }
  return active;
}

base::Result<std::string> ReadKubernetesVersion(std::string_view text) {
  std::string version(text.starts_with('v') ? text.substr(1) : text);
  if (std::ranges::count(version, '.') == 1) version += ".0";
  version.insert(0, "v");
  if (VersionNumbers(version)) return version;
  return base::Fail(base::Invalid(
      "BadUsage",
      fmt::format("--kube-version is \"{}\", must be a version such as 1.31 or v1.31.4", text)));
}

base::Result<PlannedCluster> ReadCluster(const Snapshot& snapshot,
                                         const desired::PolicyView& policy,
                                         const std::string& operator_namespace,
                                         const std::optional<std::string>& kubernetes_version,
                                         std::shared_ptr<const desired::DriverAssignment> drivers,
                                         const desired::References& references) {
  TRY(CheckReadable(snapshot, kube::kNodes));
  PlannedCluster cluster;
  cluster.drivers = std::move(drivers);
  TRY_ASSIGN(Facts facts, FactsOfCluster(snapshot, kubernetes_version));
  ReadDaemonSets(snapshot, operator_namespace, facts);
  TRY_ASSIGN(facts, LabelNodes(snapshot, facts, policy, cluster));
  desired::References all = desired::ReferencesOf(policy.policy);
  std::ranges::copy(references.config_maps, std::back_inserter(all.config_maps));
  std::ranges::copy(references.secrets, std::back_inserter(all.secrets));
  TRY_ASSIGN(cluster.facts,
             desired::CompleteFacts(std::move(facts), all, SourceOf(snapshot, operator_namespace)));
  return cluster;
}

std::vector<snapshot::Query> QueriesOfCluster(const std::string& operator_namespace) {
  const auto definition = [](std::string_view name) {
    return snapshot::Query{.kind = kube::kCustomResourceDefinitions, .name = std::string(name)};
  };
  const auto object = [](const kube::ResourceKind& kind, const kube::ObjectKey& key) {
    return snapshot::Query{.kind = kind, .namespace_name = key.namespace_name, .name = key.name};
  };
  std::vector<snapshot::Query> queries{
      {.kind = desired::kClusterPolicies},
      {.kind = desired::kGpuClusters},
      {.kind = desired::kNvidiaDrivers},
      {.kind = kube::kNodes},
      {.kind = kube::kNamespaces, .name = operator_namespace},
      definition(desired::kServiceMonitorDefinition),
      definition(desired::kPrometheusRuleDefinition),
      definition(kubevirt::kHyperConvergedDefinition),
      object(desired::kClusterVersions, desired::kClusterVersionKey),
      object(desired::kProxies, desired::kClusterProxyKey),
      object(desired::kImageStreams, desired::kDriverToolkitKey)};
  for (const kube::ResourceKind& kind : desired::OwnedKinds()) {
    queries.push_back({.kind = kind, .namespace_name = kind.namespaced ? operator_namespace : ""});
  }
  return queries;
}

std::vector<snapshot::Query> QueriesOfPolicy(const api::ClusterPolicy& policy,
                                             const std::string& operator_namespace) {
  std::vector<snapshot::Query> queries;
  for (const std::string& name : desired::ReferencesOf(policy).secrets) {
    queries.push_back({.kind = kube::kSecrets, .namespace_name = operator_namespace, .name = name});
  }
  return queries;
}

}  // namespace pitcrew::plan
