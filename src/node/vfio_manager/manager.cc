#include "node/vfio_manager/manager.h"

#include <fmt/format.h>

#include <cstdio>
#include <optional>

#include "base/log.h"
#include "codec/yaml.h"
#include "host/iommu.h"
#include "host/uevent.h"
#include "node/vfio/handover.h"
#include "node/vfio/status.h"
#include "node/vfio_manager/conclude.h"
#include "node/vfio_manager/plugged_in.h"
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

base::Status Follow(const Options& options, const vfio::Settings& settings,
                    host::UeventReceiver& kernel, const io::StopToken& stop) {
  base::LogInfo("Devices that are plugged in later are followed");
  PluggedIn plugged_in(options, settings);
  while (true) {
    const auto ready = io::WaitReadable({kernel.fd()}, stop, plugged_in.due());
    if (!ready && ready.error().code == base::Code::kCancelled) return {};
    if (!ready && ready.error().code != base::Code::kTimeout) return base::Fail(ready.error());
    if (ready) {
      TRY_ASSIGN(const auto batch, kernel.Take());
      plugged_in.Note(batch);
    }
    if (plugged_in.due().passed() && !plugged_in.Give(stop)) return {};
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
