// The worker's NodeFeature (node-feature-discovery.md 3.2).
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "codec/json.h"
#include "io/stop.h"
#include "kube/client.h"
#include "node/nfd/worker_config.h"

namespace pitcrew::node::nfd {

struct WorkerIdentity {
  std::string node_name;
  std::string namespace_name;
  std::string pod_name;  // "" outside a pod
  std::string pod_uid;
  std::string version;  // "v26.7.0"
};

// The owner references for the NodeFeature (5.4). An owner whose names are not known is left out.
base::Result<codec::Json> ResolveOwners(kube::Client& client, const WorkerIdentity& identity,
                                        const std::vector<Owner>& owners,
                                        const io::StopToken& stop);

// The whole object as it should be.
codec::Json MakeNodeFeature(const WorkerIdentity& identity, const codec::Json& owners,
                            const codec::Json& spec);

}  // namespace pitcrew::node::nfd
