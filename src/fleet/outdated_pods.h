// Pods of DaemonSets that were made from a former version of their template.
#pragma once

#include <vector>

#include "fleet/cluster.h"

namespace pitcrew::fleet {

// The DaemonSet's pods of a former version, by node; empty while the DaemonSet's status does not
// tell of any, or has not caught up with its last change.
std::vector<const Pod*> OutdatedPods(const Cluster& cluster, const DaemonSet& daemonset);

}  // namespace pitcrew::fleet
