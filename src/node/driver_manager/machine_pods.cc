#include "node/driver_manager/machine_pods.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "base/file.h"
#include "host/device_users.h"
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

// Of NVIDIA's devices, below /dev/vfio.
base::Result<Names> VfioNodesOfGpus(const Options& options) {
  Names nodes;
  const host::Root root(options.sys.parent_path());
  const auto scan = host::ReadPciDevices(options.sys / "bus/pci/devices");
  if (!scan && scan.error().code == base::Code::kNotFound) return nodes;
  TRY(scan);
  std::set<gpu::PciAddress> gpus;
  for (const auto& device : scan->devices) {
    if (device.vendor != host::kVendorNvidia) continue;
    gpus.insert(device.address);
    TRY(AddNodes(device.folder, nodes));
  }
  const auto mdevs = host::ListMdevs(root);
  if (!mdevs && mdevs.error().code == base::Code::kNotFound) return nodes;
  TRY(mdevs);
  for (const auto& mdev : *mdevs) {
    if (!gpus.contains(mdev.parent)) continue;
    TRY(AddNodes(options.sys / "bus/mdev/devices" / mdev.uuid, nodes));
  }
  return nodes;
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

base::Result<std::vector<codec::Json>> PodsWithMachines(const Options& options,
                                                        const std::vector<codec::Json>& pods) {
  std::vector<codec::Json> found;
  TRY_ASSIGN(const auto nodes, VfioNodesOfGpus(options));
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

}  // namespace pitcrew::node::driver_manager
