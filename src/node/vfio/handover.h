// GPUs change hands: from the node's driver to VFIO, for virtual machines, and back
// (vfio-manager.md sections 5 to 7). What stands decides what is done, so a run that was cut off at
// any step is ended by the next one.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/result.h"
#include "gpu/pci_address.h"
#include "io/stop.h"
#include "node/vfio/bundle.h"
#include "node/vfio/node.h"

namespace pitcrew::node::vfio {

struct Handover {
  gpu::PciAddress device;  // GPU or NVSwitch
  bool changed = false;
  std::string driver;  // that has it now; "" for none
  std::optional<base::Error> failure;
};

struct Report {
  std::vector<Handover> devices;      // in the order in which they were handled
  std::vector<base::Error> failures;  // of the node, or of devices that could not be read

  [[nodiscard]] bool done() const;
  [[nodiscard]] bool changed() const;
};

// Gives the devices to VFIO, each function to the driver that is made for it. What shares an IOMMU
// group goes as a whole, or not at all: what was changed of it is taken back when a part fails.
// Users are waited for until the deadline, which all devices share; a device that a virtual machine
// has already stays as it is. The error of the result is that of reading the node, or of the
// selection.
base::Result<Report> GiveToVfio(const Settings& settings, const Selection& selection,
                                base::Deadline deadline, const io::StopToken& stop);

// Takes the devices from VFIO (a selected one from any driver) with their companions, and lets any
// driver take them: NVIDIA's at once where it is loaded, else the one that comes. One that a
// virtual machine still has at the deadline stays and is named.
base::Result<Report> TakeFromVfio(const Settings& settings, const Selection& selection,
                                  base::Deadline deadline, const io::StopToken& stop);

}  // namespace pitcrew::node::vfio
