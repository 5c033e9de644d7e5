// What should exist in the cluster, as a pure function of policy and facts.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "desired/operand_table.h"

namespace pitcrew::desired {

struct RenderedOperand {
  const Operand* operand = nullptr;
  Mode mode = Mode::kDisabled;
  // DaemonSets are neither made nor changed now, and those that stand are left as they are: no node
  // has a GPU (operator-behaviour.md section 6.1).
  bool daemonsets_withheld = false;
  // The objects, with the policy as their owner; empty unless the operand is enabled. An error says
  // which field is wrong; then nothing of this operand is touched.
  base::Result<std::vector<Object>> objects;
  // Of an enabled operand: objects that may stand from before, and are left as they are
  // (Operand::leaves_alone). Only kind, name and namespace count.
  std::vector<Object> left_alone = {};
};

// One entry per registered operand, in order. An operand that fails does not hold up the others.
std::vector<RenderedOperand> Render(const Context& context);

// One operand, whether it is enabled or not.
base::Result<std::vector<Object>> RenderObjects(const Operand& operand, const Context& context);

// Rules between fields that no single operand owns (operand-manifests.md section 1). Problems of
// spec.cdi concern every operand.
std::vector<api::FieldProblem> CheckPolicy(const api::ClusterPolicy& policy);

// What rendering needs to know.
References ReferencesOf(const api::ClusterPolicy& policy);

// Labels that the operator's own namespace lacks (operator-behaviour.md section 13.3): with
// spec.psa what lets privileged pods in, on OpenShift what lets its monitoring look. `current`: the
// Namespace object.
std::map<std::string, std::string> MissingNamespaceLabels(const api::ClusterPolicy& policy,
                                                          const Facts& facts,
                                                          const Object& current);

// Text of the desired state of `object`, without the annotation itself: what the annotation
// nvidia.com/last-applied-hash holds. Opaque; compared only for equality.
std::string HashOf(const Object& object);

}  // namespace pitcrew::desired
