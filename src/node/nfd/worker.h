// The worker: discovers what its node has and keeps the node's NodeFeature true.
#pragma once

#include <memory>

#include "base/result.h"
#include "io/stop.h"
#include "kube/client.h"
#include "node/nfd/host_paths.h"
#include "node/nfd/publisher.h"
#include "node/nfd/worker_config.h"

namespace pitcrew::node::nfd {

struct WorkerOptions {
  WorkerConfig config;
  HostPaths paths;
  WorkerIdentity identity;
  bool oneshot = false;
  int port = 0;  // of the health endpoint; 0: one that is free
};

// Runs until the stop, or once when oneshot. `client` may be null only with no_publish. An API
// server that cannot be reached is tried again (except with oneshot); wrong permissions and
// configuration end it.
base::Status RunWorker(const WorkerOptions& options, std::shared_ptr<kube::Client> client,
                       const io::StopToken& stop);

}  // namespace pitcrew::node::nfd
