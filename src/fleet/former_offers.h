// Resources that a node still lists and that nobody there offers any more. The kubelet keeps those
// of a device plugin that has ended for five minutes, with their capacity and nothing to allocate
// (Kubernetes: pkg/kubelet/cm/devicemanager, endpointStopGracePeriod): as if all were unhealthy.
#pragma once

#include <string_view>

#include "fleet/rules.h"

namespace pitcrew::fleet {

// Whether the resource is one of a former device plugin, for all that is known: what the node is
// for now has no plugin of such names; or another resource is offered by a plugin that is younger
// than the kubelet's memory.
bool IsFormerOffer(const NodeContext& context, std::string_view resource);

}  // namespace pitcrew::fleet
