// The VirtualMachine of KubeVirt that gets GPUs of a cluster, and what stands in its way; pure
// (virtualisation-and-olm.md sections 1.2, 1.3, 1.9 and 7).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "codec/json.h"
#include "snapshot/snapshot.h"

namespace pitcrew::vm {

struct MachineRequest {
  std::string name;
  std::string name_space;  // "": left to kubectl
  std::string resource;    // "": the only one that there is
  std::int64_t count = 1;
  std::int64_t cores = 4;
  std::string memory;  // a quantity: "16Gi"
  std::string disk;    // container disk image
};

// Names and numbers that KubeVirt takes. kInvalid says which is wrong, and what would be right.
base::Status Check(const MachineRequest& request);

// Most devices that one node can give, by resource, of those that are for virtual machines: those
// of nodes on which the device plugin for them runs. kUnavailable when nodes could not be read.
base::Result<std::map<std::string, std::int64_t>> Offered(const snapshot::Snapshot& snapshot);

// Fills in the resource when there is only one. kNotFound and kInvalid name those that there are.
base::Result<MachineRequest> Choose(MachineRequest request,
                                    const std::map<std::string, std::int64_t>& offered);

// `request` has its resource. A virtual machine with a GPU cannot be moved to another node, so it
// is stopped when its node is drained: with KubeVirt's other strategies a drain waits for ever.
codec::Json VirtualMachine(const MachineRequest& request);

// Sentences about why the machine might not start; those that could not be found out, too.
std::vector<std::string> Cautions(const MachineRequest& request,
                                  const snapshot::Snapshot& snapshot);

}  // namespace pitcrew::vm
