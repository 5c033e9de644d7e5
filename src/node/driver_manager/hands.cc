#include "node/driver_manager/hands.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "api/labels.h"
#include "base/log.h"
#include "base/strings.h"
#include "desired/node_labels.h"
#include "host/iommu.h"
#include "node/own_node/own_node.h"
#include "node/vfio/handover.h"
#include "node/vfio/preflight.h"
#include "node/vfio/split.h"
#include "node/vfio/status.h"

namespace pitcrew::node::driver_manager {
namespace {

using gpu::PciAddress;
using Gpus = std::set<PciAddress>;

// For virtual machines to end that still have a GPU.
constexpr std::chrono::seconds kMachineTimeout{30};

vfio::Settings SettingsOf(const Options& options) {
  return {.root = host::Root(options.sys.parent_path()),
          .host_root = host::Root(options.host_root)};
}

struct NodeGpus {
  Gpus with_vfio;
  Gpus others;
};

base::Result<NodeGpus> ReadGpus(const Options& options) {
  NodeGpus gpus;
  const auto scan = host::ReadPciDevices(options.sys / "bus/pci/devices");
  if (!scan && scan.error().code == base::Code::kNotFound) return gpus;
  TRY(scan);
  for (const auto& gpu : host::NvidiaGpus(*scan)) {
    const auto* driver = gpu.driver.value();
    const bool with_vfio = driver != nullptr && host::IsPassthroughDriver(*driver);
    (with_vfio ? gpus.with_vfio : gpus.others).insert(gpu.address);
  }
  return gpus;
}

// The operator has set the node up for both: without sandbox workloads it does not.
bool IsDivided(const codec::Json& node) {
  return !base::Trim(own_node::AnnotationOf(node, desired::kMachineGpus)).empty() &&
         !own_node::LabelOf(node, api::kDeploySandboxValidator).empty();
}

base::Result<Gpus> ReadMachineGpus(const vfio::Settings& settings, const codec::Json& node) {
  const auto layout = own_node::LabelOf(node, api::kMigConfig);
  if (!layout.empty() && layout != api::kMigConfigAllDisabled) {
    return base::Fail(base::Invalid(
        "MigOnNode",
        fmt::format(
            "{}={}: MIG layouts count the GPUs that the driver has, and these change; set {}",
            api::kMigConfig, layout, api::kMigConfigAllDisabled)));
  }
  TRY_ASSIGN(const auto standing, vfio::ReadNode(settings));
  return vfio::ReadSplit(standing, own_node::AnnotationOf(node, desired::kMachineGpus));
}

// Some of these GPUs have nothing that keeps them from virtual machines.
base::Result<bool> CanGo(const vfio::Settings& settings, const Gpus& gpus) {
  if (gpus.empty()) return false;
  TRY_ASSIGN(const auto status, vfio::ReadStatus(settings));
  return std::ranges::any_of(status.devices, [&](const auto& device) {
    return gpus.contains(device.device.address) && device.obstacles.empty();
  });
}

bool Differ(const Gpus& gpus, const Gpus& others, Gpus& difference) {
  std::ranges::set_difference(gpus, others, std::inserter(difference, difference.end()));
  return !difference.empty();
}

std::optional<base::Error> FirstFailure(const vfio::Report& report) {
  for (const auto& device : report.devices) {
    if (device.failure) return device.failure->Within(device.device.SysfsName());
  }
  return report.failures.empty() ? std::nullopt : std::optional(report.failures.front());
}

}  // namespace

base::Result<Hands> ObserveHands(const Options& options, const codec::Json& node,
                                 desired::Workload workload) {
  Hands hands;
  TRY_ASSIGN(const auto gpus, ReadGpus(options));
  if (workload == desired::Workload::kPassthrough) {
    hands.go_to_vfio = !gpus.others.empty();
    return hands;
  }
  hands.leave_vfio = !gpus.with_vfio.empty();
  if (workload != desired::Workload::kContainer || !IsDivided(node)) return hands;
  const auto settings = SettingsOf(options);
  auto chosen = ReadMachineGpus(settings, node);
  if (!chosen) {
    hands.refusal = chosen.error();
    hands.machines = gpus.with_vfio;
    hands.leave_vfio = false;
    return hands;
  }
  Gpus leaving;
  Gpus going;
  hands.leave_vfio = Differ(gpus.with_vfio, *chosen, leaving);
  if (Differ(*chosen, gpus.with_vfio, going)) {
    TRY_ASSIGN(hands.go_to_vfio, CanGo(settings, going));
  }
  hands.machines = *std::move(chosen);
  return hands;
}

base::Result<std::optional<base::Error>> DivideGpus(const Options& options, const Hands& hands,
                                                    const io::StopToken& stop) {
  TRY_ASSIGN(const bool has_pci, host::IsDirectory(options.sys / "bus/pci/devices"));
  if (!has_pci) return std::nullopt;
  const auto settings = SettingsOf(options);
  vfio::Selection others{.device = {}, .switches = options.nvswitches};
  if (hands.machines) others.except = *hands.machines;
  const auto deadline = base::Deadline::After(kMachineTimeout);
  TRY_ASSIGN(const auto taken, vfio::TakeFromVfio(settings, others, deadline, stop));
  for (const auto& failure : taken.failures) {
    base::LogWarning("A device cannot be taken from VFIO", failure);
  }
  std::vector<std::string> held;
  for (const auto& device : taken.devices) {
    if (device.failure) held.push_back(device.failure->message);
  }
  if (!held.empty()) {
    return base::Fail(base::Unavailable(
        "GpusHeldByVfio", fmt::format("GPUs of this node are with VFIO and cannot be taken from "
                                      "it: {}",
                                      base::Join(held, "; "))));
  }
  if (!hands.machines || hands.machines->empty()) return std::nullopt;
  TRY_ASSIGN(const auto given,
             vfio::GiveToVfio(settings, {.only = hands.machines}, deadline, stop));
  return FirstFailure(given);
}

}  // namespace pitcrew::node::driver_manager
