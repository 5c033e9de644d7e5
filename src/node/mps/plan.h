// Which MPS servers a node should have, and with which limits (device-plugin.md section 17.1).
// Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/plugin_config.h"
#include "base/result.h"
#include "gpu/inventory.h"
#include "gpu/mig_strategy.h"

namespace pitcrew::node::mps {

struct SharedGpu {
  std::string uuid;
  unsigned index = 0;              // NVML's
  std::uint64_t memory_bytes = 0;  // of the whole GPU; 0: unknown, and then not limited
  bool operator==(const SharedGpu&) const = default;
};

// The server of one shared resource: each of its GPUs is offered `replicas` times.
struct SharedResource {
  std::string name;             // as offered to the kubelet: "nvidia.com/gpu.shared"
  int replicas = 0;             // at least 2
  std::vector<SharedGpu> gpus;  // at least one
  bool operator==(const SharedResource&) const = default;
};

struct Plan {
  std::vector<SharedResource> resources;
  std::vector<std::string> warnings;  // for the log, one sentence each
};

// How many clients one GPU serves at most.
int MaxClients(const gpu::ComputeCapability& capability);

// No resource unless devices are shared by MPS. kInvalid "TooManyReplicas" when a GPU cannot serve
// that many clients, "MpsWithMig" when a GPU that is to be shared has MIG enabled.
base::Result<Plan> MakePlan(const gpu::Inventory& inventory, const api::Sharing& sharing);

// What the control program is told before clients come: every client gets an equal part of memory
// and multiprocessors.
std::vector<std::string> LimitCommands(const SharedResource& resource);

}  // namespace pitcrew::node::mps
