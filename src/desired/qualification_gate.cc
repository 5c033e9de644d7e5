#include "desired/qualification_gate.h"

#include "api/labels.h"
#include "api/qualification.h"

namespace pitcrew::desired {
namespace {

using api::QualificationState;
using codec::Json;

bool Says(const Node& node, QualificationState state) {
  return node.labels.Is(api::kQualification, ToString(state));
}

void Ask(const Node& node, NodeDecision& decision) {
  if (Says(node, QualificationState::kPending)) return;
  decision.labels[std::string(api::kQualification)] =
      std::string(ToString(QualificationState::kPending));
}

// Whether the validator comes to the node, which has it qualified. GPUs for virtual machines are
// nobody's to test.
bool IsQualifiable(const Node& node, const NodePolicy& policy) {
  return WorkloadOf(node, policy) == Workload::kContainer &&
         !node.labels.Is(api::kDeployOperands, "false") &&
         !node.labels.Is(api::kDeployOperatorValidator, "false");
}

bool IsOurs(const Json& taint) {
  return api::IsNotQualifiedTaint(codec::FindString(taint, {"key"}),
                                  codec::FindString(taint, {"effect"}));
}

}  // namespace

void Release(const Node& node, NodeDecision& decision) {
  if (!node.held_for_qualification) return;
  decision.taint = TaintChange::kRemove;
  if (Says(node, QualificationState::kPending)) {
    decision.labels[std::string(api::kQualification)] = std::nullopt;
  }
}

void DecideQualification(const Node& node, const NodePolicy& policy, bool joins,
                         NodeDecision& decision) {
  if (!policy.qualification_required || !IsQualifiable(node, policy)) {
    Release(node, decision);
    return;
  }
  if (joins && !node.offers_gpu) {
    if (!node.held_for_qualification) decision.taint = TaintChange::kPut;
    Ask(node, decision);
    return;
  }
  if (!node.held_for_qualification) return;
  if (Says(node, QualificationState::kPassed)) {
    decision.taint = TaintChange::kRemove;
  } else if (!node.labels.Has(api::kQualification)) {
    Ask(node, decision);
  }
}

Json TaintsAfter(const Json& node, TaintChange change) {
  Json taints = Json::array();
  if (const Json* standing = codec::Find(node, {"spec", "taints"});
      standing != nullptr && standing->is_array()) {
    for (const Json& taint : *standing) {
      if (change == TaintChange::kNone || !IsOurs(taint)) taints.push_back(taint);
    }
  }
  if (change == TaintChange::kPut) {
    taints.push_back({{"key", api::kNotQualifiedTaint}, {"effect", api::kNotQualifiedEffect}});
  }
  return taints.empty() ? Json() : taints;
}

}  // namespace pitcrew::desired
