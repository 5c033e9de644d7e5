// What the operator sees of the cluster: one watch per kind, shared by its controllers.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "api/cluster_policy.h"
#include "base/result.h"
#include "codec/json.h"
#include "desired/driver_objects/assignment.h"
#include "desired/driver_objects/driver_view.h"
#include "desired/facts.h"
#include "desired/node.h"
#include "desired/node_labels.h"
#include "desired/node_totals.h"
#include "desired/operand_table.h"
#include "desired/policy_view.h"
#include "kube/client.h"
#include "kube/informer.h"
#include "operator/watches/inventory.h"
#include "prom/exposition.h"

namespace pitcrew::gpu_operator {

// What is the same for every reconcile: read before the watches start. When it changes, all
// controllers and watches are started again.
struct ClusterIdentity {
  std::string kubernetes_version;
  std::string openshift_version;  // "" when the cluster is not OpenShift
  desired::OptionalKinds kinds;
  bool gpu_clusters = false;    // the kind is served
  bool nvidia_drivers = false;  // the kind is served

  bool operator==(const ClusterIdentity&) const = default;
};
base::Result<ClusterIdentity> ReadClusterIdentity(kube::Client& client, const io::StopToken& stop);

// What all nodes together tell, kept up to date by their watch: no reconcile looks at all of them.
// Thread-safe.
class Fleet {
 public:
  void Count(const kube::Change<desired::Node>& change);

  struct Sizes {
    std::size_t gpu_nodes = 0;
    std::size_t losing = 0;  // of those, the ones that are about to lose their GPU
  };
  [[nodiscard]] Sizes sizes() const;
  [[nodiscard]] desired::RuntimeCounts runtimes() const;
  // NodeTotals::Fill.
  void Fill(desired::Facts& facts) const;

 private:
  mutable std::mutex mutex_;
  desired::NodeTotals totals_;
};

class World {
 public:
  World(const std::shared_ptr<kube::Client>& api, std::string operator_namespace,
        ClusterIdentity cluster, const desired::OperandTable& operand_table = desired::Operands(),
        desired::LabelKeys more_node_labels = {});

  std::shared_ptr<kube::Client> client;
  std::string operator_namespace;
  ClusterIdentity identity;
  const desired::OperandTable& operands;
  Fleet fleet;
  kube::Informer<desired::Node> nodes;
  kube::Informer<desired::PolicyView> policies;
  // Which there are; none where the kind is not served.
  std::optional<kube::Informer<bool>> gpu_clusters;
  // None where the kind is not served.
  std::optional<kube::Informer<desired::DriverView>> drivers;
  Inventory inventory;
  // Called with keys of node labels that a controller needs and that this World does not keep: one
  // that keeps them has to replace it. Set before the watches start.
  std::function<void(desired::LabelKeys)> node_labels_wanted;
  // Called when a server answers the watch of policies (anew). Set before the watches start.
  std::function<void()> server_answered;

  // Ends all watches: afterwards nothing calls what was registered with them.
  void Stop();
  // Adds the watches and their stores.
  void Expose(prom::Exposition& exposition) const;
  // The policy that precedes all others and is not being deleted. Null when there is none.
  [[nodiscard]] std::shared_ptr<const desired::PolicyView> ActivePolicy() const;
  // Names of the GPUClusters, sorted.
  [[nodiscard]] std::vector<std::string> GpuClusters() const;
  // The NVIDIADrivers, sorted by name; also those that are being deleted.
  [[nodiscard]] std::vector<std::shared_ptr<const desired::DriverView>> Drivers() const;
  // Which of them each node gets its driver from. Null while that is not known: they have not been
  // listed, or labels that their selectors mention are not kept yet (node_labels_wanted).
  [[nodiscard]] std::shared_ptr<const desired::DriverAssignment> Assignment() const;
  // What the node controller goes by.
  [[nodiscard]] desired::NodePolicy NodePolicyFor(const api::ClusterPolicy& policy) const;
  // All nodes, as they are known.
  [[nodiscard]] std::vector<std::shared_ptr<const desired::Node>> AllNodes() const;
  // Of the container toolkit.
  [[nodiscard]] desired::StandingToolkits Toolkits() const;
  // Facts::runtime() without the other facts; none on OpenShift (NodePolicyOf).
  [[nodiscard]] std::optional<desired::Runtime> NodeMainRuntime() const;
  // Facts as far as nodes and identity tell them.
  [[nodiscard]] desired::Facts NodeFacts() const;
  // Success when nodes are kept with labels of these keys; else asks for them
  // (node_labels_wanted), and is kUnavailable.
  base::Status KeepNodeLabels(const desired::LabelKeys& keys) const;

 private:
  // Those of `keys` that are not kept; asks for a world that keeps them.
  [[nodiscard]] desired::LabelKeys AskForLabels(desired::LabelKeys keys) const;

  desired::LabelKeys more_node_labels_;
  mutable std::mutex assignment_mutex_;
  mutable std::shared_ptr<const desired::DriverAssignment> assignment_;  // null: to be made anew
};

}  // namespace pitcrew::gpu_operator
