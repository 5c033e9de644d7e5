#include "node/cc_mode/change.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/log.h"
#include "node/cc_mode/device.h"
#include "node/cc_mode/journal.h"

namespace pitcrew::node::cc_mode {
namespace {

// A device and what it is to become.
struct Target {
  Device device;
  DeviceMode from;
  Mode to;
};

// Switches have no mode of their own beside protected PCIe.
Mode ModeFor(const DeviceMode& device, Mode wanted) {
  return device.is_switch && wanted != Mode::kPpcie ? Mode::kOff : wanted;
}

base::Result<std::vector<Target>> OpenAll(const Settings& settings,
                                          const std::vector<DeviceMode>& devices,
                                          const std::function<Mode(const DeviceMode&)>& to) {
  TRY_ASSIGN(const auto scan, host::ReadPciDevices(settings.root.At("/sys/bus/pci/devices")));
  std::vector<Target> targets;
  for (const auto& entry : devices) {
    const auto found = std::ranges::find(scan.devices, entry.address, &host::PciDevice::address);
    if (found == scan.devices.end()) {
      return base::Fail(base::Unavailable(
          "DeviceMissing", fmt::format("{} has vanished", entry.address.SysfsName())));
    }
    TRY_ASSIGN(auto device, Device::Open(settings, *found));
    targets.push_back({std::move(device), entry, to(entry)});
  }
  return targets;
}

base::Status ResetAll(const std::vector<Target>& targets, const Progress& progress) {
  for (const auto& target : targets) {
    if (progress) progress(target.from, Step::kResetting);
    TRY(target.device.Reset());
  }
  for (const auto& target : targets) {
    TRY_ASSIGN(const Mode mode, target.device.ReadMode());
    if (mode == target.to) continue;
    return base::Fail(base::Unavailable(
        "ModeNotTaken",
        fmt::format("{} is in mode {} after its reset, not {}", target.from.address.SysfsName(),
                    ToString(mode), ToString(target.to))));
  }
  return {};
}

// `reset`: some device was told to start anew, so a way back needs that too.
base::Status Switch(std::vector<Target>& targets, const Progress& progress, bool& reset) {
  for (auto& target : targets) {
    if (progress) progress(target.from, Step::kStaging);
    TRY(target.device.Stage(target.to));
  }
  reset = true;
  return ResetAll(targets, progress);
}

// Protected PCIe has to be off everywhere before a mode of confidential computing is asked for.
base::Status LeaveProtectedPcie(const Settings& settings, const Plan& plan,
                                const Progress& progress, bool& reset) {
  std::vector<DeviceMode> devices;
  std::ranges::copy_if(plan.changes, std::back_inserter(devices),
                       [](const auto& device) { return device.mode == Mode::kPpcie; });
  if (plan.wanted == Mode::kPpcie || devices.empty()) return {};
  TRY_ASSIGN(auto targets, OpenAll(settings, devices, [](const auto&) { return Mode::kOff; }));
  return Switch(targets, progress, reset);
}

base::Status Make(const Settings& settings, const Plan& plan, const Progress& progress,
                  bool& reset) {
  TRY(LeaveProtectedPcie(settings, plan, progress, reset));
  TRY_ASSIGN(auto targets, OpenAll(settings, plan.changes, [&](const DeviceMode& device) {
               return ModeFor(device, plan.wanted);
             }));
  return Switch(targets, progress, reset);
}

// As many devices as possible: one that does not follow is no reason to leave the others.
base::Status GoBack(const Settings& settings, const std::vector<DeviceMode>& before, bool reset) {
  base::Status all;
  const auto note = [&](const base::Status& done) {
    if (!done && all) all = done;
  };
  for (const auto& entry : before) {
    auto target = OpenAll(settings, {entry}, [](const DeviceMode& device) { return device.mode; });
    if (!target) {
      note(base::Fail(target.error()));
      continue;
    }
    auto& device = target->front().device;
    const auto staged = device.Stage(entry.mode);
    note(staged);
    const auto now = device.ReadMode();
    if (staged && (reset || !now || *now != entry.mode)) note(ResetAll(*target, {}));
  }
  return all;
}

Settings Uninterrupted(Settings settings) {
  settings.stop_fd = -1;
  return settings;
}

}  // namespace

std::string_view ToString(Step step) {
  switch (step) {
    case Step::kStaging:
      return "staging";
    case Step::kResetting:
      return "resetting";
    case Step::kDone:
      return "done";
    case Step::kTakenBack:
      break;
  }
  return "taken back";
}

base::Result<bool> WasCutOff(const Settings& settings) { return FileOf(settings).Exists(); }

base::Status Recover(const Settings& given) {
  const Settings settings = Uninterrupted(given);
  const auto file = FileOf(settings);
  TRY_ASSIGN(const auto lock, file.Lock());
  TRY_ASSIGN(const auto journal, file.Read<Journal>(ParseJournal));
  if (!journal) return file.Remove();
  TRY(RequireUnused(settings, journal->before));
  TRY(GoBack(settings, journal->before, true));
  return file.Remove();
}

base::Result<Plan> Apply(const Settings& given, Mode wanted, const Progress& progress) {
  const Settings settings = Uninterrupted(given);
  const auto file = FileOf(settings);
  TRY_ASSIGN(const auto lock, file.Lock());
  TRY_ASSIGN(auto plan, PlanNode(settings, wanted));
  if (plan.changes.empty()) return plan;
  TRY(RequireUnused(settings, plan.changes));
  TRY_ASSIGN(const auto earlier, file.Read<Journal>(ParseJournal));
  const Journal journal = earlier.value_or(Journal{.before = plan.changes});
  if (!earlier) TRY(file.WriteText(ToJsonText(journal)));
  bool reset = earlier.has_value();
  const auto made = Make(settings, plan, progress, reset);
  if (made) {
    for (const auto& device : plan.changes) {
      if (progress) progress(device, Step::kDone);
    }
    TRY(file.Remove());
    return plan;
  }
  // What is written is what a way back leads to: also where a mode was half of a change.
  TRY_ASSIGN(const auto before, ParseJournal(ToJsonText(journal)));
  auto back = GoBack(settings, before.before, reset);
  if (back) back = file.Remove();
  if (!back) {
    // Whatever it was about: devices that are neither must not wait for a person to ask again.
    return base::Fail(base::Unavailable(
        "RollbackFailed",
        fmt::format("{}; going back to the modes before failed too: {}; the next run tries again",
                    made.error().message, back.error().message)));
  }
  for (const auto& device : plan.changes) {
    if (progress) progress(device, Step::kTakenBack);
  }
  return base::Fail(made.error().Within("the modes before are back"));
}

}  // namespace pitcrew::node::cc_mode
