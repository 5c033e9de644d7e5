// GPUs of a node as golden cases write them down.
//
//   driver_version: 580.95.05
//   cuda_version: 13000
//   devices:
//   - {uuid: GPU-0, name: NVIDIA H100 80GB HBM3, memory_mib: 81559, compute_capability: "9.0",
//      pci: "0000:1b:00.0", mig: enabled,          # enabled, disabled; missing: not capable
//      mig_devices: [{index: 0, uuid: MIG-0, gpu_instance: 1, compute_instance: 0,
//                     profile: 1g.10gb, attributes: {multiprocessor_count: 16, memory_mib: 9856}}]}
//   - {uuid: GPU-1, index: 1, minor_number: 1, fault: GpuIsLost,
//      fabric: {cluster_uuid: 0102..., clique: 1, state: 3, status: 0}}
//
// An index or minor number that is not given is the position in the list.
#pragma once

#include "base/result.h"
#include "codec/json.h"
#include "gpu/inventory.h"

namespace pitcrew::test_support {

base::Result<gpu::Inventory> InventoryFrom(const codec::Json& document);

}  // namespace pitcrew::test_support
