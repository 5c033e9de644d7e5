// What the components of virtual machines look at (validator.md section 6).
#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "codec/json.h"
#include "desired/workload.h"
#include "gpu/pci_address.h"
#include "host/pci.h"
#include "host/root.h"

namespace pitcrew::node::validator {

// What a node (its object) is for, as the operator takes it: its label; what it is set up for where
// that names no workload; else the default, else passthrough.
desired::Workload WorkloadOf(const codec::Json& node, const std::string& default_workload);

// The GPUs for virtual machines of a node for containers (desired::kMachineGpus). None where its
// annotation is no list of addresses: the driver manager refuses it.
std::set<gpu::PciAddress> MachineGpusOf(const codec::Json& node);

// Every GPU is with VFIO, whichever variant of its driver; with `only`, every one of these.
// kUnavailable "NotBoundToVfio" names the first that is not.
base::Status CheckBoundToVfio(const host::PciScan& scan,
                              const std::set<gpu::PciAddress>& only = {});

// Some GPU has virtual functions.
bool UsesVirtualFunctions(const host::PciScan& scan);
// Some GPU can have them, and all have as many as they can.
bool HasAllVirtualFunctions(const host::PciScan& scan);

// What vGPUs are made on is there: every virtual function, or a parent of mediated devices.
// kUnavailable "NoVgpuParents".
base::Status CheckVgpuParents(const host::Root& root);

// There is a vGPU: a mediated device of NVIDIA's, or a virtual function that is one by NVIDIA's own
// VFIO framework (virtualisation-and-olm.md section 5). kUnavailable "NoVgpus".
base::Status CheckVgpus(const host::Root& root);

}  // namespace pitcrew::node::validator
