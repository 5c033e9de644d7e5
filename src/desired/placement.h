// The objects of an operand for one pool of nodes (owner.h, Placement).
#pragma once

#include <vector>

#include "base/result.h"
#include "desired/manifest.h"
#include "desired/owner.h"

namespace pitcrew::desired {

// Gives the objects the placement's names, also where they refer to each other: in the role and the
// subjects of bindings, in the pods' service account and in their volumes. The DaemonSet also gets
// its node selector. The operand's name is that of its service account; what the manifests call
// "<name>-something" keeps its ending. kInternal when there is no such account, or when the pool's
// nodes need more than one DaemonSet.
base::Status Place(std::vector<Object>& objects, const Placement& placement);

}  // namespace pitcrew::desired
