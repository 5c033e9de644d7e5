#include "host/pci_control.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>

#include "base/strings.h"
#include "host/sysfs.h"

namespace pitcrew::host {
namespace {

namespace fs = std::filesystem;
using gpu::PciAddress;

fs::path DeviceFolder(const Root& root, const PciAddress& address) {
  return root.At("/sys/bus/pci/devices") / address.SysfsName();
}

base::Status RequireDevice(const Root& root, const PciAddress& address) {
  TRY_ASSIGN(const bool there, IsDirectory(DeviceFolder(root, address)));
  if (there) return {};
  return base::Fail(base::NotFound("NoSuchDevice",
                                   fmt::format("there is no PCI device {}", address.SysfsName())));
}

base::Result<unsigned> ReadCount(const fs::path& file) {
  TRY_ASSIGN(const auto text, ReadAttribute(file));
  TRY_ASSIGN(const auto count, base::ParseUnsigned(text));
  return static_cast<unsigned>(count);
}

}  // namespace

base::Result<std::string> BoundDriver(const Root& root, const PciAddress& address) {
  TRY_ASSIGN(const auto link, ReadLink(DeviceFolder(root, address) / "driver"));
  return fs::path(link).filename().string();
}

base::Status SetDriverOverride(const Root& root, const PciAddress& address,
                               std::string_view driver) {
  return WriteAttribute(
      DeviceFolder(root, address) / "driver_override", driver,
      fmt::format("set the driver override of {} to {}", address.SysfsName(), driver));
}

base::Status ClearDriverOverride(const Root& root, const PciAddress& address) {
  return WriteAttribute(DeviceFolder(root, address) / "driver_override", "\n",
                        fmt::format("clear the driver override of {}", address.SysfsName()));
}

base::Status UnbindDevice(const Root& root, const PciAddress& address) {
  TRY(RequireDevice(root, address));
  const auto driver = BoundDriver(root, address);
  if (!driver && driver.error().code == base::Code::kNotFound) return {};
  TRY(driver);
  return WriteAttribute(DeviceFolder(root, address) / "driver/unbind", address.SysfsName(),
                        fmt::format("unbind {} from {}", address.SysfsName(), *driver));
}

base::Status BindDevice(const Root& root, const PciAddress& address, std::string_view driver) {
  TRY(RequireDevice(root, address));
  const auto bound = BoundDriver(root, address);
  if (bound && *bound == driver) return {};
  if (bound) {
    return base::Fail(
        base::Error{base::Code::kConflict, "BoundToAnother",
                    fmt::format("{} is bound to {}: unbind it before it is bound to {}",
                                address.SysfsName(), *bound, driver)});
  }
  if (bound.error().code != base::Code::kNotFound) return base::Fail(bound.error());
  const auto folder = root.At("/sys/bus/pci/drivers") / fs::path(driver);
  TRY_ASSIGN(const bool loaded, IsDirectory(folder));
  if (!loaded) {
    return base::Fail(base::NotFound(
        "DriverNotLoaded",
        fmt::format("the kernel has no PCI driver {}: load its module first", driver)));
  }
  return WriteAttribute(folder / "bind", address.SysfsName(),
                        fmt::format("bind {} to {}", address.SysfsName(), driver));
}

base::Status ProbeDevice(const Root& root, const PciAddress& address) {
  TRY(RequireDevice(root, address));
  return WriteAttribute(root.At("/sys/bus/pci/drivers_probe"), address.SysfsName(),
                        fmt::format("look for a driver of {}", address.SysfsName()));
}

base::Result<std::vector<PciAddress>> VirtualFunctions(const Root& root,
                                                       const PciAddress& physical) {
  TRY(RequireDevice(root, physical));
  const auto folder = DeviceFolder(root, physical);
  TRY_ASSIGN(const auto names, ListFolder(folder));
  constexpr std::string_view kPrefix = "virtfn";
  std::vector<std::pair<std::uint64_t, PciAddress>> found;
  for (const auto& name : names) {
    if (!name.starts_with(kPrefix)) continue;
    const auto number = base::ParseUnsigned(std::string_view(name).substr(kPrefix.size()));
    if (!number) continue;
    TRY_ASSIGN(const auto link, ReadLink(folder / name));
    TRY_ASSIGN(const auto address, PciAddress::Parse(fs::path(link).filename().string()));
    found.emplace_back(*number, address);
  }
  std::ranges::sort(found);
  std::vector<PciAddress> functions;
  for (const auto& [number, address] : found) functions.push_back(address);
  return functions;
}

base::Status SetVirtualFunctions(const Root& root, const PciAddress& physical, unsigned count) {
  TRY(RequireDevice(root, physical));
  const auto folder = DeviceFolder(root, physical);
  const auto total = ReadCount(folder / "sriov_totalvfs");
  if (!total && total.error().code == base::Code::kNotFound) {
    return base::Fail(base::Error{
        base::Code::kUnsupported, "NoSriov",
        fmt::format("{} has no virtual functions: the board, its driver or the firmware's SR-IOV "
                    "setting does not offer them",
                    physical.SysfsName())});
  }
  TRY(total);
  if (count > *total) {
    return base::Fail(
        base::Invalid("TooManyFunctions", fmt::format("{} can have {} virtual functions, not {}",
                                                      physical.SysfsName(), *total, count)));
  }
  TRY_ASSIGN(const auto current, ReadCount(folder / "sriov_numvfs"));
  if (current == count) return {};
  const auto write = [&](unsigned wanted) {
    return WriteAttribute(
        folder / "sriov_numvfs", fmt::format("{}", wanted),
        fmt::format("give {} {} virtual functions", physical.SysfsName(), wanted));
  };
  if (current != 0 && count != 0) TRY(write(0));
  return write(count);
}

base::Status ResetDevice(const Root& root, const PciAddress& address) {
  TRY(RequireDevice(root, address));
  return WriteAttribute(DeviceFolder(root, address) / "reset", "1",
                        fmt::format("reset {}", address.SysfsName()));
}

}  // namespace pitcrew::host
