// Writes the worker's NodeFeature, and only when it differs (node-feature-discovery.md 3.2).
#pragma once

#include <memory>
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

// Whether the server's object lacks nothing and has nothing more of what the worker decides:
// labels, annotations, owner references and spec. Missing and empty collections are equal.
bool IsUpToDate(const codec::Json& live, const codec::Json& desired);

class NodeFeaturePublisher {
 public:
  NodeFeaturePublisher(std::shared_ptr<kube::Client> client, WorkerIdentity identity)
      : client_(std::move(client)), identity_(std::move(identity)) {}

  // The "spec" that stands on the server now; null when there is no object.
  base::Result<codec::Json> CurrentSpec(const io::StopToken& stop);

  enum class Outcome { kCreated, kUpdated, kUnchanged };
  base::Result<Outcome> Publish(const codec::Json& owners, const codec::Json& spec,
                                const io::StopToken& stop);

 private:
  base::Result<Outcome> PublishOnce(const codec::Json& desired, const io::StopToken& stop);

  std::shared_ptr<kube::Client> client_;
  WorkerIdentity identity_;
};

}  // namespace pitcrew::node::nfd
