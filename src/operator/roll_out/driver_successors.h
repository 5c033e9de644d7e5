// Drivers whose DaemonSet gets another name while their policy goes on: `usePrecompiled`,
// OpenShift's driver toolkit, another kernel. Their pods are passed on before it goes, so that each
// node has its driver until its turn.
#pragma once

#include <span>

#include "base/result.h"
#include "desired/removal.h"
#include "io/stop.h"
#include "kube/client.h"

namespace pitcrew::gpu_operator {

// Makes pods of the DaemonSet `former` that run on nodes which it still selects pods of the one of
// `wanted` that selects the node, by fresh reads. A node that none of them selects loses its driver
// with the DaemonSet; one that it selects no longer has lost it to the DaemonSet controller. False
// while there are pods left to pass on: the DaemonSet is to stay.
base::Result<bool> PassDriverPodsOn(kube::Client& client, const desired::StandingObject& former,
                                    std::span<const desired::Object> wanted,
                                    const io::StopToken& stop);

// Before the DaemonSet `former` leaves its pods as orphans: notes on those that wait for other
// parameters of their modules that they do (driver_upgrade::kFormerParameters). The names of
// ConfigMaps, by which a driver is compared with its successor, do not tell.
base::Status NoteFormerParameters(kube::Client& client, const desired::StandingObject& former,
                                  const io::StopToken& stop);

}  // namespace pitcrew::gpu_operator
