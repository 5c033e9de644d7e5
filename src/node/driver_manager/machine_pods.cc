#include "node/driver_manager/machine_pods.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "api/labels.h"
#include "base/file.h"
#include "base/log.h"
#include "gpu/device_names.h"
#include "host/device_users.h"
#include "host/iommu.h"
#include "host/mdev.h"
#include "host/pci.h"
#include "host/vfio_device.h"

namespace pitcrew::node::driver_manager {
namespace {

using Names = std::set<std::string>;

base::Status AddNodes(const std::filesystem::path& device, Names& nodes) {
  TRY_ASSIGN(const auto names, host::VfioNodes(device));
  nodes.insert(names.begin(), names.end());
  return {};
}

// None on a machine without a PCI bus.
base::Result<std::vector<host::PciDevice>> NvidiaDevices(const Options& options) {
  auto scan = host::ReadPciDevices(options.sys / "bus/pci/devices");
  if (!scan && scan.error().code == base::Code::kNotFound) return std::vector<host::PciDevice>();
  TRY(scan);
  std::erase_if(scan->devices,
                [](const auto& device) { return device.vendor != host::kVendorNvidia; });
  return std::move(scan->devices);
}

bool IsWholeWithVfio(const host::PciDevice& device) {
  const auto* driver = device.driver.value();
  return !device.physical_function.is_present() && driver != nullptr &&
         host::IsPassthroughDriver(*driver);
}

// Of NVIDIA's devices, below /dev/vfio.
base::Result<Names> VfioNodesOfGpus(const Options& options, OpenDevices meant) {
  Names nodes;
  const host::Root root(options.sys.parent_path());
  TRY_ASSIGN(const auto devices, NvidiaDevices(options));
  std::set<gpu::PciAddress> gpus;
  for (const auto& device : devices) {
    if (meant == OpenDevices::kWholeGpus && !IsWholeWithVfio(device)) continue;
    gpus.insert(device.address);
    TRY(AddNodes(device.folder, nodes));
  }
  if (meant == OpenDevices::kWholeGpus) return nodes;
  const auto mdevs = host::ListMdevs(root);
  if (!mdevs && mdevs.error().code == base::Code::kNotFound) return nodes;
  TRY(mdevs);
  for (const auto& mdev : *mdevs) {
    if (!gpus.contains(mdev.parent)) continue;
    TRY(AddNodes(options.sys / "bus/mdev/devices" / mdev.uuid, nodes));
  }
  return nodes;
}

// kDenied "ProcessesHidden" when nobody can tell.
base::Result<std::vector<codec::Json>> PodsWithMachines(const Options& options,
                                                        const std::vector<codec::Json>& pods,
                                                        OpenDevices devices) {
  std::vector<codec::Json> found;
  TRY_ASSIGN(const auto nodes, VfioNodesOfGpus(options, devices));
  if (nodes.empty()) return found;
  const auto processes = options.host_root / "proc";
  TRY_ASSIGN(const auto users, host::ListVfioUsers(processes));
  Names uids;
  for (const auto& [node, of_node] : users) {
    if (!nodes.contains(node)) continue;
    for (const auto& user : of_node) {
      // One that has ended meanwhile has none.
      const auto cgroup = base::ReadFile(processes / std::to_string(user.pid) / "cgroup");
      if (cgroup) uids.insert(PodUidOf(*cgroup));
    }
  }
  uids.erase("");
  std::ranges::copy_if(pods, std::back_inserter(found), [&](const codec::Json& pod) {
    return uids.contains(codec::FindString(pod, {"metadata", "uid"}));
  });
  return found;
}

}  // namespace

std::string PodUidOf(std::string_view cgroup) {
  constexpr std::string_view kPod = "pod";
  constexpr std::size_t kLength = 36;
  const auto is_uid = [](std::string_view text) {
    return text.size() == kLength && std::ranges::all_of(text, [](unsigned char letter) {
             return std::isxdigit(letter) != 0 || letter == '-' || letter == '_';
           });
  };
  for (auto at = cgroup.find(kPod); at != std::string_view::npos; at = cgroup.find(kPod, at + 1)) {
    const auto text = cgroup.substr(at + kPod.size(), kLength);
    if (!is_uid(text)) continue;
    std::string uid(text);
    std::ranges::replace(uid, '_', '-');
    return uid;
  }
  return "";
}

std::set<std::string> UidsWithOpenDevices(const Options& options,
                                          const std::vector<codec::Json>& pods,
                                          OpenDevices devices) {
  std::set<std::string> uids;
  const auto open = PodsWithMachines(options, pods, devices);
  if (!open) {
    base::LogWarning("Nobody can tell which pods have virtual machines with GPUs", open.error());
    return uids;
  }
  for (const auto& pod : *open) uids.insert(codec::FindString(pod, {"metadata", "uid"}));
  return uids;
}

base::Result<std::set<std::string, std::less<>>> PassthroughResources(const Options& options) {
  auto database = gpu::DeviceNames::Load(options.pci_ids);
  if (!database) {
    base::LogWarning("What virtual machines call this node's GPUs is known by their numbers only",
                     database.error());
    database = gpu::DeviceNames();
  }
  // The names of Kata's device plugin for all GPUs and all NVSwitches (kubevirt-device-plugin.md
  // section 9).
  std::set<std::string, std::less<>> resources = {"nvidia.com/pgpu", "nvidia.com/nvswitch"};
  TRY_ASSIGN(const auto devices, NvidiaDevices(options));
  for (const auto& device : devices) {
    const bool is_whole = device.is_display_controller() || host::IsNvSwitch(device);
    if (!is_whole || device.physical_function.is_present()) continue;
    const auto name = database->Find(device.device);
    for (const auto& resource :
         {gpu::DeviceIdText(device.device), gpu::KubevirtName(name), gpu::KataName(name)}) {
      if (gpu::IsUsableName(resource)) {
        resources.insert(fmt::format("{}{}", api::kResourcePrefix, resource));
      }
    }
  }
  return resources;
}

bool IsVgpuResource(std::string_view resource) {
  if (!resource.starts_with(api::kResourcePrefix)) return false;
  resource.remove_prefix(api::kResourcePrefix.size());
  return (resource.starts_with("NVIDIA_") || resource.starts_with("GRID_")) &&
         resource.find('-') != std::string_view::npos;
}

}  // namespace pitcrew::node::driver_manager
