// A snapshot read as the operator reads a cluster: the policies, the nodes as they will be
// labelled, and the facts that follow from both.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/cluster_policy.h"
#include "base/result.h"
#include "codec/json.h"
#include "desired/cluster_kinds.h"
#include "desired/driver_objects/assignment.h"
#include "desired/facts.h"
#include "desired/node_labels.h"
#include "desired/policy_view.h"
#include "snapshot/live.h"
#include "snapshot/snapshot.h"

namespace pitcrew::plan {

struct PlannedNode {
  const codec::Json* live = nullptr;  // borrowed from the snapshot
  desired::NodeDecision decision;
  // The node would lose its labels, and the guard against mass removal keeps them.
  bool held = false;
};

struct PlannedCluster {
  std::vector<PlannedNode> nodes;  // by name
  // With the nodes as they will be labelled.
  desired::Facts facts;
  // As NodePolicyOf wants it.
  std::optional<desired::Runtime> main_runtime;
  // Why some nodes keep labels that they would lose; "" normally.
  std::string removals_held;
  // With NVIDIADrivers: the nodes as they will be labelled, by name, and which driver is for each.
  std::vector<std::shared_ptr<const desired::Node>> labelled;
  std::shared_ptr<const desired::DriverAssignment> drivers;
};

// The policy that the operator would follow: the oldest one that is not being deleted. Null when
// there is none; an error when policies could not be read. Borrowed from the snapshot.
base::Result<const codec::Json*> ActivePolicy(const snapshot::Snapshot& snapshot);

// "v1.31.0" from "1.31", "v1.31" or "v1.31.4"; kInvalid for anything else.
base::Result<std::string> ReadKubernetesVersion(std::string_view text);

// `kubernetes_version`: given by a person, else the server's, else the lowest of the kubelets'.
// `drivers`: null where the drivers are not those of NVIDIADrivers; else with what these refer to.
// Fails when something could not be read that what would run depends on.
base::Result<PlannedCluster> ReadCluster(const snapshot::Snapshot& snapshot,
                                         const desired::PolicyView& policy,
                                         const std::string& operator_namespace,
                                         const std::optional<std::string>& kubernetes_version,
                                         std::shared_ptr<const desired::DriverAssignment> drivers,
                                         const desired::References& references);

// What to read of a live cluster, before a policy is known and after it.
std::vector<snapshot::Query> QueriesOfCluster(const std::string& operator_namespace);
std::vector<snapshot::Query> QueriesOfPolicy(const api::ClusterPolicy& policy,
                                             const std::string& operator_namespace);

// `object` with labels and annotations changed: apiVersion, kind, and metadata with name, labels
// and annotations only.
codec::Json NodeAfter(const codec::Json& object, const desired::Changes& labels,
                      const desired::Changes& annotations);

}  // namespace pitcrew::plan
