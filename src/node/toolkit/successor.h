// Whether the container engine keeps its configuration when this toolkit ends.
#pragma once

#include "base/result.h"
#include "codec/json.h"

namespace pitcrew::node::toolkit {

// What the API server says, whole objects.
struct Surroundings {
  codec::Json own_pod;
  codec::Json daemon_set;  // that controls own_pod
  codec::Json node;        // of own_pod
  codec::Json name_space;  // of own_pod
};

// True when there is evidence that another pod of the same DaemonSet will take this one's place on
// the node and configure the engine in the same way: after an update of its image, for example, or
// a pod that somebody deletes. The DaemonSet stays, still selects the node, and its template has
// the variables and volumes that this pod has. Upstream takes the runtimes out of the engine and
// restarts it in any case, and its successor puts them in and restarts it again
// (container-toolkit.md 4.2, 4.15, 4.16).
bool HasSuccessor(const Surroundings& around);

// Whether the engine keeps its configuration: where another toolkit takes over, and where it is not
// known, because the API server does not answer. An engine that is restored and restarted for
// nothing is restarted again by the next pod, and starts no GPU pod meanwhile; what the files were
// before the first toolkit stays on disk for the one that leaves for good. Known to be without a
// successor is also who runs in no cluster, and whose rights are gone: an operand that goes loses
// them with its DaemonSet, and an operator which gives none expects what upstream does.
bool KeepsConfiguration(const base::Result<bool>& has_successor);

}  // namespace pitcrew::node::toolkit
