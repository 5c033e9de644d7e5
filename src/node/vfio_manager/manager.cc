#include "node/vfio_manager/manager.h"

#include <fmt/format.h>

#include <cstdio>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/strings.h"
#include "codec/yaml.h"
#include "host/iommu.h"
#include "host/uevent.h"
#include "node/own_node/own_node.h"
#include "node/vfio/handover.h"
#include "node/vfio/status.h"
#include "node/vfio_manager/status_text.h"

namespace pitcrew::node::vfio_manager {
namespace {

base::Status PrintStatus(const Options& options, const vfio::Settings& settings) {
  TRY_ASSIGN(const auto status, vfio::ReadStatus(settings));
  switch (options.format) {
    case Format::kTable:
      fmt::print("{}", ToTable(status));
      break;
    case Format::kJson:
      fmt::print("{}\n", ToJson(status).dump(2));
      break;
    case Format::kYaml:
      fmt::print("{}", codec::ToYamlText(ToJson(status)));
      break;
  }
  return {};
}

// Nothing for a device that is none of ours: that is told, and is no failure (vfio-manager.md 2).
base::Result<std::optional<vfio::Selection>> SelectionOf(const Options& options,
                                                         const vfio::Settings& settings) {
  vfio::Selection selection{.device = std::nullopt, .switches = options.switches};
  if (options.all) return selection;
  auto address = gpu::PciAddress::Parse(options.device);
  if (!address) return base::Fail(address.error().Within("failed to get NVIDIA device"));
  selection.device = *address;
  TRY_ASSIGN(const auto node, vfio::ReadNode(settings));
  const auto devices = vfio::SelectDevices(node, selection);
  if (!devices) return base::Fail(devices.error().Within("failed to get NVIDIA device"));
  if (!devices->empty()) return selection;
  if (host::IsNvSwitch(*node.Find(*address))) {
    base::LogInfo(
        fmt::format("Skipping NVSwitch {} (BIND_NVSWITCHES not set)", address->SysfsName()));
  } else {
    base::LogInfo(fmt::format("Device {} is not an NVIDIA device", address->SysfsName()));
  }
  return std::nullopt;
}

std::vector<std::string> NamesIf(const vfio::Report& report, auto&& condition) {
  std::vector<std::string> names;
  for (const auto& device : report.devices) {
    if (condition(device)) names.push_back(device.device.SysfsName());
  }
  return names;
}

// What people read with `kubectl describe node`. The GPUs are changed already: that the API server
// cannot be told is no failure of theirs.
void TellNode(const Options& options, const vfio::Report& report) {
  if (options.node_name.empty()) return;
  const auto node = own_node::OwnNode::Open(
      options.kubeconfig,
      {.node_name = options.node_name, .component = "vfio-manager", .pod_name = ""});
  if (!node) {
    base::LogInfo("The node gets no Events", {{"reason", node.error().message}});
    return;
  }
  // One Event for what several devices have in common.
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> failures;
  for (const auto& device : report.devices) {
    if (!device.failure) continue;
    failures[{device.failure->reason, device.failure->message}].push_back(
        device.device.SysfsName());
  }
  for (const auto& failure : report.failures) failures[{failure.reason, failure.message}] = {};
  for (const auto& [what, devices] : failures) {
    const auto names = base::Join(devices, ", ");
    (*node)->Record(kube::EventType::kWarning, what.first,
                    names.empty() ? what.second : fmt::format("{}: {}", names, what.second));
  }
  const auto changed = NamesIf(report, [](const auto& device) { return device.changed; });
  if (changed.empty()) return;
  const bool bound = options.action == Action::kBind;
  (*node)->Record(kube::EventType::kNormal, bound ? "BoundToVfio" : "TakenFromVfio",
                  fmt::format("{} {}", base::Join(changed, ", "),
                              bound ? "can be given to virtual machines"
                                    : "can be used by the node's driver again"));
}

base::Status Conclude(const Options& options, const vfio::Report& report) {
  const std::string verb = options.action == Action::kBind ? "bind" : "unbind";
  for (const auto& failure : report.failures) {
    base::LogWarning(fmt::format("Failed to {} a device", verb), failure);
  }
  for (const auto& device : report.devices) {
    const auto name = device.device.SysfsName();
    if (device.failure) {
      base::LogWarning(fmt::format("Failed to {} device {}", verb, name), *device.failure);
    } else {
      base::LogInfo(fmt::format("Device {} is done", name),
                    {{"driver", device.driver.empty() ? "none" : device.driver},
                     {"changed", device.changed}});
    }
  }
  TellNode(options, report);
  if (report.done()) return {};
  if (!options.all && report.devices.size() == 1) {
    return base::Fail(report.devices.front().failure->Within(
        options.action == Action::kBind
            ? fmt::format("failed to bind device {} to vfio driver", options.device)
            : fmt::format("failed to unbind device {} from driver", options.device)));
  }
  auto failed = NamesIf(report, [](const auto& device) { return device.failure.has_value(); });
  if (!report.failures.empty()) failed.emplace_back("devices that cannot be read");
  return base::Fail(base::Unavailable(
      "DevicesFailed", fmt::format("failed to {} {}; each is named above with its reason", verb,
                                   base::Join(failed, ", "))));
}

// The GPU, or NVSwitch, of the board that a function belongs to.
gpu::PciAddress BoardOf(gpu::PciAddress address) {
  address.function = 0;
  return address;
}

// Functions that the kernel has found. What somebody lets the kernel say again (udevadm trigger, a
// write to a device's uevent) tells of nothing new.
std::set<gpu::PciAddress> FoundBy(const host::UeventReceiver::Batch& batch) {
  std::set<gpu::PciAddress> found;
  for (const auto& event : batch.events) {
    const auto slot = event.fields.find("PCI_SLOT_NAME");
    if (event.action != "add" || event.subsystem() != "pci" || slot == event.fields.end()) continue;
    if (event.fields.contains("SYNTH_UUID")) continue;
    if (const auto address = gpu::PciAddress::Parse(slot->second)) found.insert(*address);
  }
  return found;
}

// The boards of those that are there. Who makes virtual functions has a driver that does.
std::set<gpu::PciAddress> BoardsOf(const std::set<gpu::PciAddress>& functions,
                                   const vfio::Node& node) {
  std::set<gpu::PciAddress> boards;
  for (const auto& address : functions) {
    const auto* device = node.Find(address);
    if (device == nullptr || !device->physical_function.is_absent()) continue;
    boards.insert(BoardOf(address));
  }
  return boards;
}

// Those of `node` that no driver has: what may have come while the kernel's word was lost.
std::set<gpu::PciAddress> WithoutDriver(const vfio::Node& node) {
  std::set<gpu::PciAddress> boards;
  for (const auto& device : node.scan.devices) {
    const bool is_board = device.address.function == 0 && device.physical_function.is_absent();
    if (is_board && device.driver.is_absent()) boards.insert(device.address);
  }
  return boards;
}

base::Status GivePluggedIn(const Options& options, const vfio::Settings& settings,
                           const host::UeventReceiver::Batch& batch, const io::StopToken& stop) {
  const auto found = FoundBy(batch);
  if (found.empty() && !batch.lost) return {};
  TRY_ASSIGN(const auto node, vfio::ReadNode(settings));
  auto boards = BoardsOf(found, node);
  if (batch.lost) boards.merge(WithoutDriver(node));
  for (const auto& board : boards) {
    const vfio::Selection selection{.device = board, .switches = options.switches};
    // It may be gone again, or somebody else's device.
    const auto devices = vfio::SelectDevices(node, selection);
    if (!devices || devices->empty()) continue;
    TRY_ASSIGN(const auto report,
               vfio::GiveToVfio(settings, selection, base::Deadline::After(options.timeout), stop));
    std::ignore = Conclude(options, report);  // it has logged each failure
  }
  return {};
}

base::Status Follow(const Options& options, const vfio::Settings& settings,
                    host::UeventReceiver& kernel, const io::StopToken& stop) {
  base::LogInfo("Devices that are plugged in later are followed");
  while (true) {
    const auto ready = io::WaitReadable({kernel.fd()}, stop);
    if (!ready && ready.error().code == base::Code::kCancelled) return {};
    TRY(ready);
    TRY_ASSIGN(const auto batch, kernel.Take());
    const auto given = GivePluggedIn(options, settings, batch, stop);
    if (!given && given.error().code == base::Code::kCancelled) return {};
    if (!given) base::LogWarning("Devices that were plugged in stay as they are", given.error());
  }
}

base::Status RunOnce(const Options& options, const vfio::Settings& settings,
                     const io::StopToken& stop) {
  TRY_ASSIGN(const auto selection, SelectionOf(options, settings));
  if (!selection) return {};
  const auto deadline = base::Deadline::After(options.timeout);
  const auto report = options.action == Action::kBind
                          ? vfio::GiveToVfio(settings, *selection, deadline, stop)
                          : vfio::TakeFromVfio(settings, *selection, deadline, stop);
  if (!report) return base::Fail(report.error().Within("failed to get NVIDIA GPUs"));
  if (report->devices.empty() && report->failures.empty()) {
    base::LogInfo("This node has no NVIDIA GPU");
  }
  return Conclude(options, *report);
}

}  // namespace

vfio::Settings SettingsOf(const Options& options) {
  return {.root = host::Root(options.root), .host_root = host::Root(options.host_root)};
}

base::Status Run(const Options& options, const vfio::Settings& settings,
                 const io::StopToken& stop) {
  if (options.action == Action::kStatus) return PrintStatus(options, settings);
  if (options.action != Action::kBind || !options.follow) return RunOnce(options, settings, stop);
  // First of all: what comes during the first look is told too.
  auto kernel = host::UeventReceiver::Create();
  TRY(RunOnce(options, settings, stop));
  if (kernel) return Follow(options, settings, *kernel, stop);
  base::LogWarning("Devices that are plugged in later are seen at the next start only",
                   kernel.error());
  stop.Wait();
  return {};
}

}  // namespace pitcrew::node::vfio_manager
