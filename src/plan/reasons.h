// Why something would change, in a person's words.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "codec/json.h"
#include "desired/operand.h"
#include "desired/owned_object.h"
#include "desired/removal.h"
#include "plan/cluster.h"
#include "plan/plan.h"

namespace pitcrew::plan {

// Item::operand of nodes and of the operator's namespace.
inline constexpr std::string_view kNodeLabels = "node labels";
inline constexpr std::string_view kNamespaceLabels = "namespace labels";

// Of a DaemonSet that a NVIDIADriver left which was deleted and made anew.
inline constexpr std::string_view kOfFormerObject =
    "of a former NVIDIADriver of the same name; its pods go on running";

// Ends the reason of a driver's DaemonSet that goes while others take its place.
inline constexpr std::string_view kPodsPassedOn =
    "pods on nodes that it still selects go on running, as another DaemonSet's";

// Knows which fields of a policy are changed, and which operand reads them.
class Reasons {
 public:
  // `stored` is the policy that stands under the same name; null when there is none.
  Reasons(const codec::Json& policy, const codec::Json* stored);

  [[nodiscard]] std::string OfCreation(const desired::Operand& operand) const;
  [[nodiscard]] std::string OfChange(std::string_view state, const desired::OwnedObject& live,
                                     const codec::Json& desired) const;
  [[nodiscard]] std::string OfRemoval(const desired::Removal& removal) const;

 private:
  // "spec.driver.version" of the changed fields that the operand reads; "" when there is none.
  [[nodiscard]] std::string ChangedFieldsOf(const desired::Operand& operand) const;

  codec::Json policy_;
  std::vector<std::string> changed_fields_;
};

std::string ReasonOfNode(const PlannedNode& node, const desired::PolicyView& policy);

// Of the taint api::kNotQualifiedTaint: in the object, the changes and the reason of a node's item.
void ChangeTaints(const codec::Json& node, desired::TaintChange change, Item& item);

// A driver's change that nobody will finish has cordoned the node: in changes and reason.
void LiftCordon(Item& item);

// What is worth knowing about the whole.
std::vector<std::string> NotesOf(const snapshot::Snapshot& snapshot,
                                 const api::ClusterPolicy& policy, const PlannedCluster& cluster);

// A node that the operator leaves.
Item ItemOfCleanup(const codec::Json& node);

}  // namespace pitcrew::plan
