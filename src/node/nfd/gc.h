// Deletes NodeFeature objects of nodes that are gone (node-feature-discovery.md 9).
#pragma once

#include <chrono>
#include <memory>

#include "base/result.h"
#include "io/stop.h"
#include "kube/client.h"

namespace pitcrew::node::nfd {

struct GcConfig {
  std::chrono::nanoseconds interval = std::chrono::hours(1);  // between full passes
  int page_size = 200;
};

// Runs until the stop. An object is deleted only when the API server, asked again, says that its
// node does not exist; objects that name no node are left alone.
base::Status RunGc(std::shared_ptr<kube::Client> client, const GcConfig& config,
                   const io::StopToken& stop);

}  // namespace pitcrew::node::nfd
