// Drivers that change hands: from the ClusterPolicy to a NVIDIADriver and back (driver-lifecycle.md
// section 2.18). The former DaemonSet is deleted and its pods stay, as orphans; a pod of the new
// DaemonSet waits on each of their nodes until the orphan is gone. Where both run the same driver,
// the orphan is handed over in its place. Pure.
#pragma once

#include <cstdint>
#include <string_view>

#include "codec/json.h"

namespace pitcrew::driver_upgrade {

// What a pod, or a template of pods, does with the driver of its node: images, commands, arguments,
// literal variables and sources of variables of its containers, and the files that the driver is
// given. Equal where a new pod would run the driver that runs already; 0 when there is no driver
// among the containers. Of this process only.
//
// Left out is what does not reach a driver that runs: the driver manager, probes, resources,
// labels, and what the two kinds of DaemonSets call differently (the digest of the configuration,
// the ConfigMaps of the startup probe and of OpenShift's certificates).
std::uint64_t DriverConfigurationOf(const codec::Json& pod_spec);

// The merge patch by which a running pod (as it was read) becomes one of a DaemonSet that selects
// its node: it gets the labels of that DaemonSet's pods of the version `revision`, and the
// DaemonSet controller adopts it. Fails with a conflict when the pod has changed since.
codec::Json HandOverPatch(const codec::Json& pod, const codec::Json& daemonset,
                          std::string_view revision);

// The merge patch by which a running pod (as it was read) becomes one of a DaemonSet that selects
// its node, in place of the one that it had: by its version it is outdated there. Not left to
// adoption: the ClusterPolicy's DaemonSets of several kernels select pods by the same label, and
// one that adopts the pod of a node that it is not for ends it. Fails with a conflict when the pod
// has changed since.
codec::Json PassOnPatch(const codec::Json& pod, const codec::Json& daemonset);

}  // namespace pitcrew::driver_upgrade
