#include "node/vfio/handover.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>

#include "base/log.h"
#include "host/iommu.h"
#include "host/pci_control.h"
#include "host/sysfs.h"
#include "host/vfio_device.h"
#include "node/vfio/move.h"
#include "node/vfio/preflight.h"
#include "node/vfio/users.h"
#include "node/vfio/variants.h"

namespace pitcrew::node::vfio {
namespace {

using base::Deadline;
using host::PciDevice;

// A function with the driver that it is to have, and the one that it had.
struct Target {
  PciDevice function;
  std::string driver;
  std::string before;
};

// The kernel's driver for whoever has to change a device's virtual functions that its own driver
// does not change: NVIDIA's (drivers/pci/pci-pf-stub.c; sriov_numvfs_store in drivers/pci/iov.c).
constexpr std::string_view kFunctionsModule = "pci_pf_stub";
constexpr std::string_view kFunctionsDriver = "pci-pf-stub";

bool IsInUse(const base::Error& error) { return error.reason == kGpuInUse; }

base::Result<std::string> OverrideOf(const PciDevice& function) {
  auto name = host::ReadAttribute(function.folder / "driver_override");
  if (!name && name.error().code == base::Code::kNotFound) return "";
  TRY(name);
  return *name == "(null)" ? "" : *std::move(name);
}

void AddOutcome(const Settings& settings, const Bundle& bundle, const base::Result<bool>& outcome,
                Report& report) {
  for (const auto& unit : bundle.units) {
    Handover handover{.device = unit.device.address,
                      .changed = outcome && *outcome,
                      .driver = DriverNow(settings.root, unit.device.address).value_or("?"),
                      .failure = std::nullopt};
    if (!outcome) handover.failure = outcome.error();
    report.devices.push_back(std::move(handover));
  }
}

// All bundles by `attempt`, first those that nobody uses: a user holds up only the GPU that it has.
template <class Attempt>
base::Status HandleAll(const Settings& settings, const std::vector<Bundle>& bundles,
                       Deadline deadline, Report& report, Attempt&& attempt) {
  std::vector<const Bundle*> busy;
  const auto handle = [&](const Bundle& bundle, Deadline until, bool last) -> base::Status {
    const base::Result<bool> outcome = attempt(bundle, until);
    if (!outcome && outcome.error().code == base::Code::kCancelled) {
      return base::Fail(outcome.error());
    }
    if (!outcome && IsInUse(outcome.error()) && !last) {
      busy.push_back(&bundle);
      return {};
    }
    AddOutcome(settings, bundle, outcome, report);
    return {};
  };
  for (const auto& bundle : bundles) TRY(handle(bundle, Deadline::After({}), false));
  for (const auto* bundle : busy) TRY(handle(*bundle, deadline, true));
  return {};
}

class ToVfio {
 public:
  ToVfio(const Settings& settings, const Node& node, const Variants& variants,
         const io::StopToken& stop)
      : settings_(settings), node_(node), variants_(variants), stop_(stop) {}

  // Whether anything was changed.
  base::Result<bool> Give(const Bundle& bundle, Deadline deadline) const {
    if (const auto obstacle = CheckGroups(node_, bundle)) return base::Fail(*obstacle);
    TRY_ASSIGN(const auto console, CheckConsole(settings_.root, bundle));
    if (console) return base::Fail(*console);
    TRY_ASSIGN(auto targets, TargetsOf(bundle));
    std::erase_if(targets, [](const Target& target) { return target.before == target.driver; });
    if (targets.empty()) {
      TRY(RequireFreeMemory(bundle));
      return false;
    }
    TRY_ASSIGN(const bool kept, HasMachine(bundle, targets));
    if (kept) return false;
    std::vector<PciDevice> functions;
    for (const auto& target : targets) functions.push_back(target.function);
    TRY(AwaitUnused(settings_, functions, bundle.Name(), deadline, stop_));
    TRY(FreeOfVirtualFunctions(bundle));
    TRY(MoveAll(bundle, targets));
    return true;
  }

 private:
  base::Result<std::vector<Target>> TargetsOf(const Bundle& bundle) const {
    std::vector<Target> targets;
    for (const auto& function : bundle.functions()) {
      TRY_ASSIGN(const auto module, variants_.ModuleFor(function));
      TRY_ASSIGN(auto driver, variants_.LoadDriver(module));
      TRY_ASSIGN(auto before, DriverNow(settings_.root, function.address));
      targets.push_back({function, std::move(driver), std::move(before)});
    }
    return targets;
  }

  // A virtual machine that runs on another VFIO driver than the best one keeps what it has.
  base::Result<bool> HasMachine(const Bundle& bundle, const std::vector<Target>& targets) const {
    std::vector<PciDevice> held;
    for (const auto& target : targets) {
      if (host::IsVfioDriver(target.before)) held.push_back(target.function);
    }
    if (held.empty()) return false;
    TRY_ASSIGN(const auto users, FindUsers(settings_, held));
    if (users.empty()) return false;
    base::LogWarning("A virtual machine runs on another VFIO driver than the best one; it stays",
                     {{"device", bundle.Name()},
                      {"driver", targets.front().before},
                      {"best", targets.front().driver},
                      {"users", NamesOf(users)}});
    return true;
  }

  // They go with the driver of their physical function, whoever has them (vfio-manager.md 10.8).
  base::Status FreeOfVirtualFunctions(const Bundle& bundle) const {
    for (const auto& unit : bundle.units) {
      const auto* count = unit.device.sriov_vfs.value();
      if (count == nullptr || *count == 0) continue;
      TRY_ASSIGN(const auto addresses, host::VirtualFunctions(settings_.root, unit.device.address));
      std::vector<PciDevice> functions;
      for (const auto& address : addresses) {
        if (const auto* function = node_.Find(address)) functions.push_back(*function);
      }
      TRY_ASSIGN(const auto users, FindUsers(settings_, functions));
      if (!users.empty()) {
        return base::Fail(base::Error{
            base::Code::kConflict, std::string(kFunctionsInUse),
            fmt::format(
                "virtual functions of {} are in use by {}: end those virtual machines first",
                unit.device.address.SysfsName(), NamesOf(users))});
      }
      TRY(RemoveFunctions(unit.device.address));
    }
    return {};
  }

  base::Status RemoveFunctions(const gpu::PciAddress& address) const {
    auto removed = host::SetVirtualFunctions(settings_.root, address, 0);
    if (removed || removed.error().code != base::Code::kNotFound) return removed;
    const auto by_stub = [&]() -> base::Status {
      TRY_ASSIGN(const auto stub, variants_.LoadDriver(std::string(kFunctionsModule)));
      TRY(MoveToDriver(settings_.root, address, stub));
      TRY(host::SetVirtualFunctions(settings_.root, address, 0));
      return MoveToNobody(settings_.root, address);
    }();
    if (by_stub) return {};
    return base::Fail(by_stub.error().Within(fmt::format(
        "the virtual functions of {} cannot be removed, which its own driver does not do and {} "
        "is for",
        address.SysfsName(), kFunctionsDriver)));
  }

  base::Status RequireFreeMemory(const Bundle& bundle) const {
    for (const auto& unit : bundle.units) {
      TRY_ASSIGN(const auto framebuffer, CheckFramebuffer(settings_.root, unit.device));
      if (framebuffer) return base::Fail(*framebuffer);
    }
    return {};
  }

  base::Status MoveAll(const Bundle& bundle, const std::vector<Target>& targets) const {
    for (std::size_t i = 0; i < targets.size(); ++i) {
      const auto& target = targets[i];
      const auto moved = MoveToDriver(settings_.root, target.function.address, target.driver);
      if (!moved) return TakeBack(targets, i + 1, moved.error());
      base::LogInfo("Bound", {{"device", target.function.address.SysfsName()},
                              {"driver", target.driver},
                              {"before", target.before.empty() ? "none" : target.before}});
    }
    // Only now is it known: newer kernels take a framebuffer of the firmware away on binding.
    const auto free = RequireFreeMemory(bundle);
    return free ? free : TakeBack(targets, targets.size(), free.error());
  }

  // The first `count` get back what they had. The error, with what did not succeed.
  base::Status TakeBack(const std::vector<Target>& targets, std::size_t count,
                        base::Error error) const {
    for (const auto& target : std::views::reverse(targets | std::views::take(count))) {
      if (const auto back = GiveBack(target); !back) {
        error.message += fmt::format(
            "; {} could not be given back to {}: {}", target.function.address.SysfsName(),
            target.before.empty() ? "nobody" : target.before, back.error().message);
      }
    }
    return base::Fail(std::move(error));
  }

  base::Status GiveBack(const Target& target) const {
    const auto& address = target.function.address;
    if (host::IsPassthroughDriver(target.before)) {
      return MoveToDriver(settings_.root, address, target.before);
    }
    TRY(MoveToNobody(settings_.root, address));
    return target.before.empty() ? base::Status()
                                 : host::BindDevice(settings_.root, address, target.before);
  }

  const Settings& settings_;
  const Node& node_;
  const Variants& variants_;
  const io::StopToken& stop_;
};

class ToDriver {
 public:
  ToDriver(const Settings& settings, bool from_any_driver, const io::StopToken& stop)
      : settings_(settings), from_any_driver_(from_any_driver), stop_(stop) {}

  base::Result<bool> Take(const Bundle& bundle, Deadline deadline) const {
    std::vector<PciDevice> held;  // those that have a driver which lets go
    std::vector<PciDevice> free;
    for (const auto& function : bundle.functions()) {
      TRY_ASSIGN(const auto driver, DriverNow(settings_.root, function.address));
      if (driver.empty()) {
        free.push_back(function);
        continue;
      }
      TRY_ASSIGN(const bool ours, IsOurs(function, driver));
      if (from_any_driver_ || ours) {
        held.push_back(function);
      } else {
        TRY(DropOverride(function, host::IsPassthroughDriver));
        base::LogInfo("Left to its driver",
                      {{"device", function.address.SysfsName()}, {"driver", driver}});
      }
    }
    TRY(AwaitUnused(settings_, held, bundle.Name(), deadline, stop_));
    for (const auto& function : held) {
      TRY(MoveToNobody(settings_.root, function.address));
      base::LogInfo("Unbound", {{"device", function.address.SysfsName()}});
    }
    const auto any = [](std::string_view /*name*/) { return true; };
    for (const auto& function : free) TRY(DropOverride(function, any));
    free.insert(free.end(), held.begin(), held.end());
    for (const auto& function : free) TRY(LetDriversTake(function));
    return !held.empty();
  }

 private:
  // Also one that a run has which was cut off while it removed virtual functions.
  static base::Result<bool> IsOurs(const PciDevice& function, const std::string& driver) {
    if (driver != kFunctionsDriver) return host::IsPassthroughDriver(driver);
    TRY_ASSIGN(const auto only, OverrideOf(function));
    return only == kFunctionsDriver;
  }

  // Takes away a driver_override that a run left which was cut off: with it VFIO alone would get
  // the device.
  base::Status DropOverride(const PciDevice& function, bool (*is_meant)(std::string_view)) const {
    TRY_ASSIGN(const auto name, OverrideOf(function));
    if (name.empty() || !is_meant(name)) return {};
    return host::ClearDriverOverride(settings_.root, function.address);
  }

  // A GPU goes to NVIDIA's driver where that is loaded already: nothing else would tell it of the
  // GPU. Where it is not, another driver (nouveau) must not get it before NVIDIA's comes.
  base::Status LetDriversTake(const PciDevice& function) const {
    if (IsGpu(function) || host::IsNvSwitch(function)) {
      TRY_ASSIGN(const bool loaded,
                 host::IsDirectory(settings_.root.At("/sys/bus/pci/drivers/nvidia")));
      if (!loaded) return {};
    }
    TRY(host::ProbeDevice(settings_.root, function.address));
    TRY_ASSIGN(const auto driver, DriverNow(settings_.root, function.address));
    if (!host::IsPassthroughDriver(driver)) return {};
    return base::Fail(base::Error{
        base::Code::kConflict, "TakenByVfioAgain",
        fmt::format("{} was unbound, and {} has taken it again: by its option \"ids\" (modprobe.d, "
                    "or the kernel argument vfio-pci.ids); take the GPU's id away there",
                    function.address.SysfsName(), driver)});
  }

  const Settings& settings_;
  bool from_any_driver_;
  const io::StopToken& stop_;
};

}  // namespace

bool Report::done() const {
  return failures.empty() && std::ranges::none_of(devices, [](const auto& device) {
           return device.failure.has_value();
         });
}

bool Report::changed() const {
  return std::ranges::any_of(devices, [](const auto& device) { return device.changed; });
}

base::Result<Report> GiveToVfio(const Settings& settings, const Selection& selection,
                                Deadline deadline, const io::StopToken& stop) {
  TRY_ASSIGN(const auto node, ReadNode(settings));
  TRY_ASSIGN(const auto devices, SelectDevices(node, selection));
  Report report;
  if (!selection.device) report.failures = node.unread;
  if (devices.empty()) return report;
  if (const auto off = CheckTranslation(node.translation)) {
    for (const auto& device : devices) {
      report.devices.push_back({.device = device.address,
                                .changed = false,
                                .driver = DriverNow(settings.root, device.address).value_or("?"),
                                .failure = off});
    }
    return report;
  }
  TRY_ASSIGN(const auto variants, Variants::Read(settings));
  const ToVfio to_vfio(settings, node, variants, stop);
  TRY(HandleAll(settings, MakeBundles(node, devices), deadline, report,
                [&](const Bundle& bundle, Deadline until) { return to_vfio.Give(bundle, until); }));
  return report;
}

base::Result<Report> TakeFromVfio(const Settings& settings, const Selection& selection,
                                  Deadline deadline, const io::StopToken& stop) {
  TRY_ASSIGN(const auto node, ReadNode(settings));
  TRY_ASSIGN(const auto devices, SelectDevices(node, selection));
  Report report;
  if (!selection.device) report.failures = node.unread;
  const ToDriver to_driver(settings, selection.device.has_value(), stop);
  TRY(HandleAll(
      settings, MakeBundles(node, devices), deadline, report,
      [&](const Bundle& bundle, Deadline until) { return to_driver.Take(bundle, until); }));
  return report;
}

}  // namespace pitcrew::node::vfio
