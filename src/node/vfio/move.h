// One PCI function from one driver to another (vfio-manager.md 5.1, 5.2).
#pragma once

#include <string>

#include "base/result.h"
#include "gpu/pci_address.h"
#include "host/root.h"

namespace pitcrew::node::vfio {

// Bound to `driver` and to no other; nothing is written when it is so. kConflict "NotBound" when
// the kernel took every write and the function still has not that driver.
base::Status MoveToDriver(const host::Root& root, const gpu::PciAddress& address,
                          const std::string& driver);

// Without a driver, and without an override that would keep one off. kConflict "StillBound" as
// above.
base::Status MoveToNobody(const host::Root& root, const gpu::PciAddress& address);

// The driver's name; "" without one.
base::Result<std::string> DriverNow(const host::Root& root, const gpu::PciAddress& address);

}  // namespace pitcrew::node::vfio
