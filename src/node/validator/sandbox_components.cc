#include <fmt/format.h>

#include "api/labels.h"
#include "base/log.h"
#include "node/validator/components.h"
#include "node/validator/driver_check.h"
#include "node/validator/sandbox.h"

namespace pitcrew::node::validator {
namespace {

// As upstream waits for the vGPU manager to make what vGPUs are made on (validator.md 6.3).
constexpr std::chrono::minutes kParentsTimeout{5};

// Tells others what the node is for, and whether that is `meant`. `seen` becomes the node.
base::Result<bool> IsFor(desired::Workload meant, const Options& options, Cluster& cluster,
                         const io::StopToken& stop, codec::Json* seen = nullptr) {
  codec::Json node;
  TRY(Repeat(options, {}, stop, [&]() -> base::Status {
    TRY_ASSIGN(node, cluster.ReadNode(options, stop));
    return {};
  }));
  const auto workload = WorkloadOf(node, options.default_workload);
  const StatusFolder status(options.output_folder);
  TRY(status.Write(validations::kWorkloadType, fmt::format("{}\n", ToString(workload))));
  if (seen != nullptr) *seen = node;
  if (workload == meant) return true;
  base::LogInfo("There is nothing to validate",
                {{"component", options.component}, {"workload", ToString(workload)}});
  return false;
}

// A driver of the host, else that of the vGPU manager's container; the file that tells which.
base::Result<const char*> FindVgpuManager(const Options& options, const io::StopToken& stop) {
  const auto on_host = CheckHostDriver(options, stop);
  if (on_host) return validations::kHostVgpuManagerReady;
  if (on_host.error().code != base::Code::kNotFound) return base::Fail(on_host.error());
  TRY(CheckContainerDriver(options, stop));
  return validations::kVgpuManagerReady;
}

}  // namespace

base::Status ValidateVfioPci(const Options& options, Cluster& cluster, const io::StopToken& stop) {
  codec::Json node;
  TRY_ASSIGN(const bool applies,
             IsFor(desired::Workload::kPassthrough, options, cluster, stop, &node));
  const bool for_containers =
      WorkloadOf(node, options.default_workload) == desired::Workload::kContainer;
  const auto only = for_containers ? MachineGpusOf(node) : std::set<gpu::PciAddress>();
  if (!applies && only.empty()) return {};
  const StatusFolder status(options.output_folder);
  TRY(status.Remove(validations::kVfioPciReady));
  TRY(Repeat(options, {.devices = true}, stop, [&]() -> base::Status {
    TRY_ASSIGN(const auto scan,
               host::ReadPciDevices(options.devices_root.At("/sys/bus/pci/devices")));
    // What is not known of the devices may be a GPU.
    if (!scan.failures.empty()) return base::Fail(scan.failures.front());
    return CheckBoundToVfio(scan, only);
  }));
  base::LogInfo("The GPUs are with VFIO");
  return status.Write(validations::kVfioPciReady);
}

base::Status ValidateVgpuManager(const Options& options, Cluster& cluster,
                                 const io::StopToken& stop) {
  TRY_ASSIGN(const bool applies, IsFor(desired::Workload::kVgpu, options, cluster, stop));
  if (!applies) return {};
  const StatusFolder status(options.output_folder);
  TRY(status.Remove(validations::kVgpuManagerReady));
  TRY(status.Remove(validations::kHostVgpuManagerReady));
  const char* file = nullptr;
  TRY(Repeat(options, {.folders = {options.output_folder, options.driver_seen_at}}, stop,
             [&]() -> base::Status {
               TRY_ASSIGN(file, FindVgpuManager(options, stop));
               return {};
             }));
  // The manager makes them behind its start, so they are waited for in any case.
  Options waiting = options;
  waiting.with_wait = true;
  TRY(Repeat(
      waiting, {.devices = true}, stop, [&] { return CheckVgpuParents(options.devices_root); },
      base::Deadline::After(kParentsTimeout)));
  base::LogInfo("The vGPU manager is valid", {{"file", file}});
  return status.Write(file);
}

base::Status ValidateVgpuDevices(const Options& options, Cluster& cluster,
                                 const io::StopToken& stop) {
  TRY_ASSIGN(const bool applies, IsFor(desired::Workload::kVgpu, options, cluster, stop));
  if (!applies) return {};
  const StatusFolder status(options.output_folder);
  TRY(status.Remove(validations::kVgpuDevicesReady));
  TRY(Repeat(options, {.devices = true}, stop, [&] { return CheckVgpus(options.devices_root); }));
  base::LogInfo("There are vGPUs");
  return status.Write(validations::kVgpuDevicesReady);
}

base::Status ValidateCcManager(const Options& options, Cluster& cluster,
                               const io::StopToken& stop) {
  const StatusFolder status(options.output_folder);
  TRY(status.Remove(validations::kCcManagerReady));
  TRY(Repeat(options, {.folders = {options.output_folder}}, stop, [&]() -> base::Status {
    TRY_ASSIGN(const auto node, cluster.ReadNode(options, stop));
    const auto capable = codec::FindString(node, {"metadata", "labels", api::kCcCapable});
    if (capable != "true") return {};
    // The manager changes whole nodes: on one for containers too there is none.
    if (WorkloadOf(node, options.default_workload) == desired::Workload::kContainer) return {};
    TRY_ASSIGN(const bool ready, status.Has(validations::kCcManagerContainerReady));
    if (ready) return {};
    return base::Fail(base::Unavailable(
        "CcManagerNotReady",
        fmt::format("the manager of confidential computing has not set its mode yet: {} does not "
                    "exist",
                    (status.path() / validations::kCcManagerContainerReady).string())));
  }));
  return status.Write(validations::kCcManagerReady);
}

}  // namespace pitcrew::node::validator
