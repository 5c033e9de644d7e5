// What the master puts on a Node: pure functions (node-feature-discovery.md 8.3 to 8.6).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "codec/json.h"
#include "kube/resource.h"
#include "node/nfd/features.h"
#include "node/nfd/master_config.h"

namespace pitcrew::node::nfd {

// One NodeFeature as far as the master needs it.
struct NodeFeatureView {
  std::string node_name;  // "" when the label is missing
  Labels labels;          // spec.labels
  bool operator==(const NodeFeatureView&) const = default;
};

// The labels of all NodeFeature objects of one node, merged: the master's own namespace first, then
// by name, then by namespace; later wins. Names get the default namespace when they have none.
struct KeyedNodeFeature {
  kube::ObjectKey key;
  NodeFeatureView view;
};
Labels MergeLabels(std::vector<KeyedNodeFeature> objects, const MasterConfig& config);

// Why a label may not be put on a node.
base::Status CheckNodeLabel(const std::string& name, const std::string& value,
                            const MasterConfig& config);

struct FilteredLabels {
  Labels labels;
  std::vector<base::Error> rejected;
};
FilteredLabels FilterLabels(const Labels& merged, const MasterConfig& config);

// "[<instance>.]nfd.node.kubernetes.io/feature-labels".
std::string OwnedLabelsAnnotation(const MasterConfig& config);
// Names as the annotation lists them: comma-joined, sorted, the default namespace taken off.
std::string JoinOwnedNames(const std::vector<std::string>& names);
std::vector<std::string> SplitOwnedNames(std::string_view text);

// The merge patch that makes `node` carry `desired`, or nothing when it does already. With
// `keep_unlisted` nothing is removed, and what stays is still listed as owned.
std::optional<codec::Json> PlanNodePatch(const codec::Json& node, const Labels& desired,
                                         bool keep_unlisted, const MasterConfig& config);
// The patch that removes every owned label and all bookkeeping of this instance.
std::optional<codec::Json> PlanPrune(const codec::Json& node, const MasterConfig& config);

}  // namespace pitcrew::node::nfd
