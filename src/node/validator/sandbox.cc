#include "node/validator/sandbox.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/labels.h"
#include "base/strings.h"
#include "desired/node_labels.h"
#include "host/iommu.h"
#include "host/mdev.h"
#include "host/sysfs.h"
#include "host/vfio_device.h"

namespace pitcrew::node::validator {
namespace {

using host::PciDevice;

// What is not known of the devices may be a GPU.
base::Result<host::PciScan> ReadDevices(const host::Root& root) {
  TRY_ASSIGN(auto scan, host::ReadPciDevices(root.At("/sys/bus/pci/devices")));
  if (!scan.failures.empty()) return base::Fail(scan.failures.front());
  return scan;
}

std::uint32_t CountOf(const base::Observed<std::uint32_t>& count) {
  return count.is_present() ? *count.value() : 0;
}

bool IsVgpu(const PciDevice& function) {
  if (function.vendor != host::kVendorNvidia || !function.physical_function.is_present()) {
    return false;
  }
  const auto type = host::ReadAttribute(function.folder / "nvidia/current_vgpu_type");
  return type && !type->empty() && *type != "0";
}

base::Result<bool> HasMdev(const host::Root& root, const host::PciScan& scan) {
  const auto mdevs = host::ListMdevs(root);
  if (!mdevs && mdevs.error().code == base::Code::kNotFound) return false;
  TRY(mdevs);
  return std::ranges::any_of(*mdevs, [&](const host::MdevDevice& mdev) {
    const auto parent = std::ranges::find(scan.devices, mdev.parent, &PciDevice::address);
    return parent != scan.devices.end() && parent->vendor == host::kVendorNvidia;
  });
}

}  // namespace

desired::Workload WorkloadOf(const codec::Json& node, const std::string& default_workload) {
  const auto label = [&](std::string_view name) {
    return codec::FindString(node, {"metadata", "labels", name});
  };
  const std::string own = label(api::kWorkloadConfig);
  if (const auto workload = desired::WorkloadNamed(own)) return *workload;
  if (!own.empty()) {
    const auto standing =
        desired::SetUpFor([&](std::string_view key) { return !label(key).empty(); });
    if (standing) return *standing;
  }
  return desired::WorkloadNamed(default_workload).value_or(desired::Workload::kPassthrough);
}

std::set<gpu::PciAddress> MachineGpusOf(const codec::Json& node) {
  std::set<gpu::PciAddress> gpus;
  const auto list = codec::FindString(node, {"metadata", "annotations", desired::kMachineGpus});
  for (const auto& word : base::SplitTrimmed(list, ',')) {
    const auto address = gpu::PciAddress::Parse(word);
    if (!address) return {};
    gpus.insert(*address);
  }
  return gpus;
}

base::Status CheckBoundToVfio(const host::PciScan& scan, const std::set<gpu::PciAddress>& only) {
  for (const auto& gpu : host::NvidiaGpus(scan)) {
    if (!only.empty() && !only.contains(gpu.address)) continue;
    const auto* driver = gpu.driver.value();
    if (driver != nullptr && host::IsVfioDriver(*driver)) continue;
    if (gpu.driver.is_unknown()) return base::Fail(*gpu.driver.error());
    return base::Fail(base::Unavailable(
        "NotBoundToVfio",
        fmt::format(
            "device not bound to 'vfio-pci'; device: {} driver: '{}'; the pod of {} tells why",
            gpu.address.SysfsName(), driver != nullptr ? *driver : "",
            only.empty() ? "nvidia-vfio-manager" : "the driver")));
  }
  return {};
}

bool UsesVirtualFunctions(const host::PciScan& scan) {
  return std::ranges::any_of(host::NvidiaGpus(scan),
                             [](const auto& gpu) { return CountOf(gpu.sriov_vfs) > 0; });
}

bool HasAllVirtualFunctions(const host::PciScan& scan) {
  std::uint32_t total = 0;
  std::uint32_t there = 0;
  for (const auto& gpu : host::NvidiaGpus(scan)) {
    total += CountOf(gpu.sriov_total_vfs);
    there += CountOf(gpu.sriov_vfs);
  }
  return total > 0 && there == total;
}

base::Status CheckVgpuParents(const host::Root& root) {
  TRY_ASSIGN(const auto scan, ReadDevices(root));
  const auto missing = [](std::string_view what) {
    return base::Fail(base::Unavailable(
        "NoVgpuParents", fmt::format("vGPU Manager parent devices not ready: {}", what)));
  };
  if (UsesVirtualFunctions(scan)) {
    if (HasAllVirtualFunctions(scan)) return {};
    return missing("not all virtual functions of the GPUs are enabled yet");
  }
  const auto parents = host::ListMdevParents(root);
  if (!parents && parents.error().code != base::Code::kNotFound) return base::Fail(parents.error());
  if (parents && !parents->empty()) return {};
  return missing(
      "no GPU has virtual functions, and none can have mediated devices; is the vGPU manager's "
      "driver loaded, and SR-IOV on in the firmware?");
}

base::Status CheckVgpus(const host::Root& root) {
  TRY_ASSIGN(const auto scan, ReadDevices(root));
  TRY_ASSIGN(const bool mediated, HasMdev(root, scan));
  if (mediated || std::ranges::any_of(scan.devices, IsVgpu)) return {};
  return base::Fail(base::Unavailable(
      "NoVgpus",
      "no vGPU devices found: the vGPU device manager makes those that the node's label "
      "nvidia.com/vgpu.config names"));
}

}  // namespace pitcrew::node::validator
