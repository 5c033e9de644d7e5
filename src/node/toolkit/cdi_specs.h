// Device nodes and CDI specifications that the toolkit puts on the node (container-toolkit.md 4.9,
// 4.10).
#pragma once

#include "base/result.h"
#include "cdi/spec.h"
#include "gpu/inventory.h"
#include "node/toolkit/options.h"

namespace pitcrew::node::toolkit {

// Makes control nodes that are missing below the device root. A major that the kernel does not list
// (its module is not loaded, or the devices are simulated) is a warning: the device nodes that
// exist are what counts.
void CreateControlNodes(const Options& options);

// Writes the management specification (device "all" for the operator's own pods) where CDI is
// enabled, and in any case the one with every GPU by index and UUID that the runtime takes
// unqualified names from. Fails with "NoDeviceNodes" when the device root has none.
base::Status WriteCdiSpecs(const Options& options);

// Annotations of driver and GPUs (cdi/driver_annotations.h), for requirements of images, which the
// runtime looks at in mode legacy.
void DescribeDriver(const gpu::Inventory& inventory, cdi::Spec& spec);

}  // namespace pitcrew::node::toolkit
