// One node in full, asked for when somebody looks at it: what a fleet of thousands cannot be told
// all the time.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "codec/json.h"
#include "fleet/cluster.h"
#include "io/stop.h"
#include "kube/client.h"

namespace pitcrew::dashboard {

struct DetailSettings {
  // Read by way of the API server (pods/proxy), with the rights of whoever runs this.
  bool readings = true;
};

// `node` is what doctor says of the node when it is asked about it alone, logs included; `pods`
// are the running ones that hold devices of it; `gpus` what its metrics exporter tells. What could
// not be read is named in `unknown` (`what`, `reason`). With no `client` `cluster` is all there is.
// kNotFound for a node that is not there; otherwise only the stop is an error.
base::Result<codec::Json> DetailOf(const std::shared_ptr<const fleet::Cluster>& cluster,
                                   const std::string& node, kube::Client* client,
                                   const DetailSettings& settings, const io::StopToken& stop);

}  // namespace pitcrew::dashboard
