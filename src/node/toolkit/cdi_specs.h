// Device nodes and CDI specifications that the toolkit puts on the node (container-toolkit.md 4.9,
// 4.10).
#pragma once

#include <vector>

#include "base/result.h"
#include "cdi/spec.h"
#include "gpu/inventory.h"
#include "node/toolkit/options.h"

namespace pitcrew::node::toolkit {

// Makes control nodes that are missing below the device root or have another number than the
// driver, where the options ask for that. An error says why they are left as they are: a major that
// the kernel does not list (its module is not loaded, or the devices are simulated). The device
// nodes that exist are what counts.
base::Status CreateControlNodes(const Options& options);

// The folder of device nodes as this process sees it.
std::filesystem::path DevFolderHere(const Options& options);

// Writes the management specification (device "all" for the operator's own pods) where CDI is
// enabled, and in any case the one with every GPU by index and UUID that the runtime takes
// unqualified names from. Fails with "NoDeviceNodes" when the device root has none.
//
// Returns what is not in them, or not written anew, although it may be possible later: GPUs and MIG
// devices that cannot be read, all of them where NVML does not answer (an earlier specification
// stays then); device nodes with another major than their driver has, which would open another
// driver's device; control nodes that are not there.
base::Result<std::vector<base::Error>> WriteCdiSpecs(const Options& options);

// Annotations of driver and GPUs (cdi/driver_annotations.h), for requirements of images, which the
// runtime looks at in mode legacy.
void DescribeDriver(const gpu::Inventory& inventory, cdi::Spec& spec);

}  // namespace pitcrew::node::toolkit
