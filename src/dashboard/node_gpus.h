// The GPUs of a node as far as its labels and resources tell them: whole ones, MIG instances, and
// devices for virtual machines. Which GPU has which instance, and which pod has which GPU, neither
// says (readings.h may).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "codec/json.h"
#include "fleet/views.h"

namespace pitcrew::dashboard {

// Devices of one resource.
struct GpuGroup {
  std::string resource;      // "nvidia.com/mig-1g.10gb"
  std::string profile;       // of MIG instances: "1g.10gb"; "" for whole devices
  int slices = 0;            // GPU slices of one instance; 0 for whole devices
  std::int64_t count = 0;    // devices: shares of one (replicas) count once
  std::int64_t offered = 0;  // of them, to pods: the others are unhealthy, or nobody offers them
};

struct NodeGpus {
  std::optional<std::int64_t> count;  // of physical GPUs; none where no label tells
  std::string product;                // "" where no label tells
  std::int64_t memory_mib = 0;        // of one; 0 where no label tells
  std::int64_t replicas = 1;          // pods that share one
  std::string sharing;                // "time-slicing", "mps"; "" when each is one pod's
  int slices_each = 0;                // of a GPU of this model, where there are MIG instances
  std::vector<GpuGroup> groups;       // whole GPUs first
};

// From the resources of the node's status and feature discovery's labels (feature-discovery.md
// sections 4.2 to 4.4). A node whose plugin has offered nothing yet has the GPUs of its labels.
NodeGpus GpusOf(const fleet::Node& node);
codec::Json ToJson(const NodeGpus& gpus);

}  // namespace pitcrew::dashboard
