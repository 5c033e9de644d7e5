#include "simulation/sysfs/control.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <string>
#include <utility>

#include "base/strings.h"

namespace pitcrew::simulation::sysfs {
namespace {

constexpr std::array<std::pair<std::string_view, Errno>, 10> kErrors = {{{"none", 0},
                                                                         {"EPERM", EPERM},
                                                                         {"EIO", EIO},
                                                                         {"EAGAIN", EAGAIN},
                                                                         {"ENOMEM", ENOMEM},
                                                                         {"EBUSY", EBUSY},
                                                                         {"ENODEV", ENODEV},
                                                                         {"EINVAL", EINVAL},
                                                                         {"ENOSPC", ENOSPC},
                                                                         {"ETIMEDOUT", ETIMEDOUT}}};

Errno RunFault(Machine& machine, const std::vector<std::string>& words) {
  const auto point = FaultPointFrom(words[2]);
  if (!point) return EINVAL;
  for (const auto& [name, number] : kErrors) {
    if (name == words[3]) return machine.SetFault(words[1], *point, number);
  }
  return EINVAL;
}

// load nvidia [VERSION [while-used]]
Errno RunLoad(Machine& machine, const std::vector<std::string>& words) {
  NvidiaModule module;
  if (words.size() > 2) module.version = words[2];
  if (words.size() > 3) module.goes_with_users = words[3] == kWhileUsed;
  if (words.size() > 4 || (words.size() == 4 && !module.goes_with_users)) return EINVAL;
  return machine.Load(words[1], std::move(module));
}

std::string Faults(const Machine& machine) {
  std::string text;
  for (const auto& [address, device] : machine.devices()) {
    for (const auto& [point, number] : device.faults) {
      std::string_view error = "?";
      for (const auto& [name, value] : kErrors) {
        if (value == number) error = name;
      }
      text += fmt::format("{} {} {}\n", address.SysfsName(), Name(point), error);
    }
    if (device.used) text += address.SysfsName() + " used\n";
  }
  for (const auto& [uuid, mdev] : machine.mdevs()) {
    if (mdev.used) text += uuid + " used\n";
  }
  return text;
}

// Of confidential computing, whatever those who change them say.
std::string Modes(const Machine& machine) {
  std::string text;
  for (const auto& [address, processor] : machine.processors()) {
    text += fmt::format("{} {}\n", address.SysfsName(), processor.mode());
  }
  return text;
}

}  // namespace

Errno RunControl(Machine& machine, std::string_view line) {
  const auto words = base::SplitTrimmed(base::Trim(line), ' ');
  if (words.size() == 4 && words[0] == "fault") return RunFault(machine, words);
  if (words.size() >= 2 && words[0] == "load") return RunLoad(machine, words);
  if (words.size() != 2) return EINVAL;
  if (words[0] == "unload") return machine.Unload(words[1]);
  if (words[0] == "use") return machine.SetUsed(words[1], true);
  if (words[0] == "leave") return machine.SetUsed(words[1], false);
  return EINVAL;
}

void AddControl(const Machine& machine, Tree& tree) {
  tree.AddCommand("/simulation/control", RunControl);
  tree.AddFile("/simulation/faults", Faults(machine));
  tree.AddFile("/simulation/modes", Modes(machine));
}

}  // namespace pitcrew::simulation::sysfs
