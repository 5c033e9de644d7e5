// Which driver a PCI device has, and how many virtual functions (vfio-manager.md section 5; Linux:
// Documentation/ABI/testing/sysfs-bus-pci). Errors are those of WriteAttribute (sysfs.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gpu/pci_address.h"
#include "host/root.h"

namespace pitcrew::host {

// The name of the driver that has the device now; kNotFound when none has it, or there is no such
// device.
base::Result<std::string> BoundDriver(const Root& root, const gpu::PciAddress& address);

// The one driver that may take the device from now on, whatever its ids; nothing is bound yet.
base::Status SetDriverOverride(const Root& root, const gpu::PciAddress& address,
                               std::string_view driver);
// Any driver may take the device again.
base::Status ClearDriverOverride(const Root& root, const gpu::PciAddress& address);

// Takes the device from its driver; success when it has none. The driver waits for its users:
// `nvidia` blocks the write for as long as a program has the GPU open.
base::Status UnbindDevice(const Root& root, const gpu::PciAddress& address);
// Gives the device to a driver; success when it has it already. kNotFound "DriverNotLoaded" when
// there is no such driver in the kernel, kConflict "BoundToAnother" when another one has the
// device.
base::Status BindDevice(const Root& root, const gpu::PciAddress& address, std::string_view driver);
// Lets the kernel look for a driver; success also when none takes the device.
base::Status ProbeDevice(const Root& root, const gpu::PciAddress& address);

// Virtual functions of a physical one, in their order (virtfn0, virtfn1, ...). kNotFound when there
// is no such device; empty when it has none.
base::Result<std::vector<gpu::PciAddress>> VirtualFunctions(const Root& root,
                                                            const gpu::PciAddress& physical);
// Makes them exactly `count`. The kernel only goes from none to some: others are removed first,
// with whatever uses them. kUnsupported "NoSriov" for a device that cannot, kInvalid
// "TooManyFunctions" with the device's limit.
base::Status SetVirtualFunctions(const Root& root, const gpu::PciAddress& physical, unsigned count);

// Resets one device. kNotFound "NoSuchAttribute" when the kernel knows no way to; kConflict while
// the driver has it.
base::Status ResetDevice(const Root& root, const gpu::PciAddress& address);

}  // namespace pitcrew::host
