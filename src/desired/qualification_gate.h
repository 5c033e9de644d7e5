// No GPU pod before a node's GPUs have passed: which nodes get the taint, and when it goes. Pure.
// Not upstream's; off unless spec.validator.qualification.required is true (docs/qualification.md).
#pragma once

#include "codec/json.h"
#include "desired/node_labels.h"

namespace pitcrew::desired {

// Adds to the decision what the gate asks for. `joins`: the same decision finds out that the node
// has a GPU. Only such a node is held, and only while nobody is offered GPUs there: pods may
// already run on the others.
//
// A label that says "passed" from before does not open the gate to a node that joins: it becomes
// "pending" in the same write as the taint, and the node's own qualification, which sees whether
// its result of before still stands, writes it anew.
void DecideQualification(const Node& node, const NodePolicy& policy, bool joins,
                         NodeDecision& decision);

// Takes the taint away, and a label that waits for nobody any more.
void Release(const Node& node, NodeDecision& decision);

// spec.taints of a Node object after the change; null where none remain.
codec::Json TaintsAfter(const codec::Json& node, TaintChange change);

}  // namespace pitcrew::desired
