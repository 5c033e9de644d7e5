// Which GPUs of a node VFIO has, and which it is to have when a driver comes: all for passthrough,
// none for vGPUs, and of a node for containers those that an annotation names
// (desired::kMachineGpus).
#pragma once

#include <optional>
#include <set>

#include "base/result.h"
#include "codec/json.h"
#include "desired/workload.h"
#include "gpu/pci_address.h"
#include "io/stop.h"
#include "node/driver_manager/options.h"

namespace pitcrew::node::driver_manager {

struct Hands {
  // Of a node for containers that is divided: the GPUs for virtual machines.
  std::optional<std::set<gpu::PciAddress>> machines;
  // Why the node is not divided as it was asked for. Those that VFIO has stay with it then.
  std::optional<base::Error> refusal;
  bool leave_vfio = false;  // some GPUs have a driver of VFIO and are to have another one
  bool go_to_vfio = false;  // some are to have one, and can, and have none yet
};

base::Result<Hands> ObserveHands(const Options& options, const codec::Json& node,
                                 desired::Workload workload);

// A driver gets only GPUs that no other driver has (driver-lifecycle.md 4.3 step 11), and none of
// those for virtual machines. kUnavailable "GpusHeldByVfio" names GPUs that VFIO keeps and who has
// them. A value is why a GPU for virtual machines cannot be given to VFIO: it stays with the
// driver.
base::Result<std::optional<base::Error>> DivideGpus(const Options& options, const Hands& hands,
                                                    const io::StopToken& stop);

}  // namespace pitcrew::node::driver_manager
