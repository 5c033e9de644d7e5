#include "node/vfio/move.h"

#include <fmt/format.h>

#include "host/pci_control.h"

namespace pitcrew::node::vfio {

using gpu::PciAddress;
using host::Root;

base::Result<std::string> DriverNow(const Root& root, const PciAddress& address) {
  auto driver = host::BoundDriver(root, address);
  if (!driver && driver.error().code == base::Code::kNotFound) return "";
  return driver;
}

base::Status MoveToNobody(const Root& root, const PciAddress& address) {
  // The override goes last: one without a driver is ours to take away whoever was cut off here, but
  // nothing would tell whose a device is that has pci-pf-stub and no override.
  TRY(host::UnbindDevice(root, address));
  TRY(host::ClearDriverOverride(root, address));
  TRY_ASSIGN(const auto driver, DriverNow(root, address));
  if (driver.empty()) return {};
  return base::Fail(base::Error{
      base::Code::kConflict, "StillBound",
      fmt::format("{} was taken from its driver, and {} has it again: something on the node binds "
                  "it; look for udev rules and for driverctl",
                  address.SysfsName(), driver)});
}

base::Status MoveToDriver(const Root& root, const PciAddress& address, const std::string& driver) {
  TRY_ASSIGN(const auto before, DriverNow(root, address));
  if (before == driver) return {};
  TRY(host::UnbindDevice(root, address));
  TRY(host::SetDriverOverride(root, address, driver));
  TRY(host::BindDevice(root, address, driver));
  TRY_ASSIGN(const auto after, DriverNow(root, address));
  if (after == driver) return {};
  return base::Fail(base::Error{
      base::Code::kConflict, "NotBound",
      fmt::format("the kernel took all commands to bind {} to {}, and {} has it; dmesg tells more",
                  address.SysfsName(), driver, after.empty() ? "no driver" : after)});
}

}  // namespace pitcrew::node::vfio
