// Virtual functions, and devices that come and go.
#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <string>

#include "simulation/sysfs/machine.h"

namespace pitcrew::simulation::sysfs {
namespace {

// Where NVIDIA's GPUs have their first virtual function: 00.4, behind it one after the other.
constexpr unsigned kFirstFunction = 4;
constexpr unsigned kFunctionsPerDevice = 8;

// Linux: kstrtou16 and kstrtou8 with base 0: all of it is a number, one newline may follow.
std::optional<unsigned long> ParseNumber(std::string_view text, unsigned long highest) {
  std::string copy(text);
  if (copy.ends_with('\n')) copy.pop_back();
  if (copy.empty() || copy[0] < '0' || copy[0] > '9') return std::nullopt;
  char* end = nullptr;
  const unsigned long value = std::strtoul(copy.c_str(), &end, 0);
  if (*end != '\0' || value > highest) return std::nullopt;
  return value;
}

PciAddress FunctionAddress(const PciAddress& physical, unsigned index) {
  PciAddress address = physical;
  const unsigned number =
      physical.device * kFunctionsPerDevice + physical.function + kFirstFunction + index;
  address.device = static_cast<std::uint8_t>(number / kFunctionsPerDevice);
  address.function = static_cast<std::uint8_t>(number % kFunctionsPerDevice);
  return address;
}

}  // namespace

std::vector<const Device*> Machine::FunctionsOf(const PciAddress& physical) const {
  std::vector<const Device*> functions;
  for (const auto& [address, device] : devices_) {
    if (device.physical == physical) functions.push_back(&device);
  }
  return functions;
}

// drivers/pci/iov.c, sriov_numvfs_store.
Errno Machine::SetFunctions(const PciAddress& address, std::string_view value) {
  const auto found = devices_.find(address);
  if (found == devices_.end()) return ENODEV;
  Device& device = found->second;
  const auto count = ParseNumber(value, 0xffff);
  if (!count) return EINVAL;
  if (*count > device.total_functions) return ERANGE;
  if (*count == device.functions) return 0;
  const auto driver = drivers_.find(device.driver);
  if (driver == drivers_.end() || !driver->second.sriov) return ENOENT;
  if (*count == 0) {
    RemoveFunctions(device);
    return 0;
  }
  if (device.functions != 0) return EBUSY;
  if (const auto fault = device.faults.find(FaultPoint::kSriov); fault != device.faults.end()) {
    return fault->second;
  }
  MakeFunctions(device, static_cast<std::uint32_t>(*count));
  return 0;
}

Errno Machine::SetFunctionsProbe(const PciAddress& address, std::string_view value) {
  const auto found = devices_.find(address);
  if (found == devices_.end()) return ENODEV;
  // Linux: kstrtobool looks at the first letter.
  const char first = value.empty() ? '\0' : value[0];
  if (std::string_view("1yYtT").find(first) != std::string_view::npos && first != '\0') {
    found->second.probe_functions = true;
  } else if (std::string_view("0nNfF").find(first) != std::string_view::npos && first != '\0') {
    found->second.probe_functions = false;
  } else {
    return EINVAL;
  }
  return 0;
}

void Machine::MakeFunctions(Device& device, std::uint32_t count) {
  device.functions = count;
  for (unsigned i = 0; i < count; ++i) {
    Device function;
    function.address = FunctionAddress(device.address, i);
    function.ids = device.ids;
    function.numa_node = device.numa_node;
    function.cpus = device.cpus;
    function.resource = device.resource;
    function.config = device.config;
    if (device.group) function.group = FreeGroup();
    function.physical = device.address;
    function.gpu = device.gpu;
    Device& made = devices_.emplace(function.address, std::move(function)).first->second;
    Announce("add", made);
    Attach(made);
  }
}

void Machine::RemoveFunctions(Device& device) {
  std::vector<PciAddress> addresses;
  for (const Device* function : FunctionsOf(device.address)) addresses.push_back(function->address);
  for (const auto& address : addresses) Erase(address);
  device.functions = 0;
}

void Machine::Erase(const PciAddress& address) {
  const auto found = devices_.find(address);
  if (found == devices_.end()) return;
  if (!found->second.driver.empty()) Detach(found->second);
  Announce("remove", found->second);
  devices_.erase(found);
}

// drivers/pci/pci-sysfs.c, remove_store.
Errno Machine::Remove(const PciAddress& address, std::string_view value) {
  const auto found = devices_.find(address);
  if (found == devices_.end()) return ENODEV;
  const auto number = ParseNumber(value, ULONG_MAX);
  if (!number) return EINVAL;
  if (*number == 0) return 0;
  if (found->second.functions != 0) RemoveFunctions(found->second);
  // The kernel forgets everything that was set; the hardware stays.
  Device hardware = found->second;
  const bool is_function = hardware.physical.has_value();
  Erase(address);
  if (is_function) return 0;
  hardware.driver.clear();
  hardware.driver_override.clear();
  hardware.probe_functions = true;
  hardware.character.reset();
  hardware.used = false;
  unplugged_.insert_or_assign(address, std::move(hardware));
  return 0;
}

Errno Machine::Rescan(std::string_view value) {
  const auto number = ParseNumber(value, ULONG_MAX);
  if (!number) return EINVAL;
  if (*number == 0) return 0;
  auto back = std::move(unplugged_);
  unplugged_.clear();
  for (auto& [address, device] : back) {
    Device& made = devices_.emplace(address, std::move(device)).first->second;
    Announce("add", made);
    Attach(made);
  }
  return 0;
}

}  // namespace pitcrew::simulation::sysfs
