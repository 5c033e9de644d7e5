// What the container toolkit reads of a node's GPUs after a change of their geometry: device nodes
// of MIG capabilities, and the management CDI specification (mig-manager.md 9.6). In this process,
// where upstream starts nvidia-smi and nvidia-ctk four times.
#pragma once

#include "base/result.h"
#include "gpu/inventory.h"
#include "node/mig_manager/options.h"

namespace pitcrew::node::mig_manager {

// Makes /dev/nvidia-caps/nvidia-cap<N> of every MIG device below the device root. A node whose
// kernel does not list MIG capabilities or their major keeps the device nodes that it has.
base::Status MakeCapabilityNodes(const Options& options, const gpu::Inventory& inventory);

// Writes <cdi folder>/management.nvidia.com-gpu.yaml, when it differs.
base::Status WriteManagementSpec(const Options& options, const gpu::Inventory& inventory);

}  // namespace pitcrew::node::mig_manager
