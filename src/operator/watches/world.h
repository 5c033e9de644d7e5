// What the operator sees of the cluster: one watch per kind, shared by its controllers.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "api/cluster_policy.h"
#include "base/result.h"
#include "codec/json.h"
#include "kube/client.h"
#include "kube/informer.h"
#include "operator/exposition.h"
#include "operator/facts.h"
#include "operator/node.h"
#include "operator/node_totals.h"
#include "operator/owned.h"

namespace pitcrew::gpu_operator {

inline constexpr kube::ResourceKind kClusterPolicies{"nvidia.com", "v1", "clusterpolicies",
                                                     "ClusterPolicy", false};
// OpenShift's.
inline constexpr kube::ResourceKind kClusterVersions{"config.openshift.io", "v1", "clusterversions",
                                                     "ClusterVersion", false};
inline constexpr kube::ResourceKind kProxies{"config.openshift.io", "v1", "proxies", "Proxy",
                                             false};
inline constexpr kube::ResourceKind kImageStreams{"image.openshift.io", "v1", "imagestreams",
                                                  "ImageStream"};
// Their objects that the operator reads.
inline const kube::ObjectKey kClusterVersionKey{.namespace_name = "", .name = "version"};
inline const kube::ObjectKey kClusterProxyKey{.namespace_name = "", .name = "cluster"};
inline const kube::ObjectKey kDriverToolkitKey{.namespace_name = "openshift",
                                               .name = "driver-toolkit"};

struct PolicyView {
  api::ClusterPolicy policy;
  codec::Json status;         // as stored; null when there is none
  std::uint64_t version = 0;  // resourceVersion
  bool deleting = false;
  bool orphans = false;             // it is being deleted, and its objects are to stay
  bool allow_mass_removal = false;  // annotation kAllowMassRemoval
};
base::Result<PolicyView> ReadPolicyView(const codec::Json& object);
// Of several policies the one that precedes all others is the active one: the oldest, and of
// equally old ones the one whose name comes first.
bool Precedes(const PolicyView& a, const PolicyView& b);

// What is the same for every reconcile of this process: read before the watches start,
// and when it changes everything starts anew.
struct ClusterIdentity {
  std::string kubernetes_version;
  std::string openshift_version;  // "" when the cluster is not OpenShift
  OptionalKinds kinds;

  bool operator==(const ClusterIdentity&) const = default;
};
base::Result<ClusterIdentity> ReadClusterIdentity(kube::Client& client, const io::StopToken& stop);

// Definitions whose coming and going changes the identity.
inline constexpr std::string_view kServiceMonitorDefinition =
    "servicemonitors.monitoring.coreos.com";
inline constexpr std::string_view kPrometheusRuleDefinition =
    "prometheusrules.monitoring.coreos.com";
// A CustomResourceDefinition that the server serves.
bool IsEstablished(const codec::Json& definition);

// What all nodes together tell, kept up to date by their watch: no reconcile looks at all of them.
// Thread-safe.
class Fleet {
 public:
  void Count(const kube::Change<Node>& change);

  struct Sizes {
    std::size_t gpu_nodes = 0;
    std::size_t losing = 0;  // of those, the ones that are about to lose their GPU
  };
  [[nodiscard]] Sizes sizes() const;
  [[nodiscard]] RuntimeCounts runtimes() const;
  // NodeTotals::Tell.
  void Tell(Facts& facts) const;

 private:
  mutable std::mutex mutex_;
  NodeTotals totals_;
};

class World {
 public:
  World(std::shared_ptr<kube::Client> api, std::string operator_namespace, ClusterIdentity cluster);

  std::shared_ptr<kube::Client> client;
  std::string operator_namespace;
  ClusterIdentity identity;
  Fleet fleet;
  kube::Informer<Node> nodes;
  kube::Informer<PolicyView> policies;
  Inventory inventory;
  // Called when a server answers the watch of policies (anew). Set before the watches start.
  std::function<void()> server_answered;

  // Ends all watches: afterwards nothing calls what was registered with them.
  void Stop();
  // Adds the watches and their stores.
  void Expose(Exposition& exposition) const;
  // The policy that precedes all others and is not being deleted. Null when there is none.
  [[nodiscard]] std::shared_ptr<const PolicyView> ActivePolicy() const;
  // Of the container toolkit.
  [[nodiscard]] StandingToolkits Toolkits() const;
  // Facts::runtime() without the other facts; none on OpenShift (NodePolicyOf).
  [[nodiscard]] std::optional<Runtime> NodeMainRuntime() const;
  // Facts as far as nodes and identity tell them.
  [[nodiscard]] Facts NodeFacts() const;
};

}  // namespace pitcrew::gpu_operator
