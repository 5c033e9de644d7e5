#include "node/sandbox_device_plugin/allocation.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "base/strings.h"
#include "gpu/device_names.h"

namespace pitcrew::node::sandbox_device_plugin {
namespace {

constexpr std::string_view kPermissions = "mrw";
constexpr std::string_view kVfioFolder = "/dev/vfio";

// Each node once, in the order of its first mention.
void AddNode(const std::string& path, rpc::ContainerAllocation& answer) {
  if (std::ranges::find(answer.devices, path, &rpc::DeviceSpec::host_path) !=
      answer.devices.end()) {
    return;
  }
  answer.devices.push_back(
      {.container_path = path, .host_path = path, .permissions = std::string(kPermissions)});
}

void AddVfioNode(std::string_view name, rpc::ContainerAllocation& answer) {
  AddNode(fmt::format("{}/{}", kVfioFolder, name), answer);
}

base::Result<const OfferedDevice*> FindFit(const std::vector<OfferedDevice>& offered,
                                           const std::string& id) {
  const auto found = std::ranges::find(offered, id, &OfferedDevice::id);
  if (found == offered.end()) {
    return base::Fail(
        base::Invalid("UnknownDevice", "invalid allocation request: unknown device: " + id));
  }
  if (!found->unfit.empty()) {
    return base::Fail(base::Unavailable(
        "DeviceUnfit",
        fmt::format("device {} cannot be given to a virtual machine: {}", id, found->unfit)));
  }
  return &*found;
}

base::Status AddIommufdDevices(const PassthroughFunction& function, const Machine& machine,
                               rpc::ContainerAllocation& answer) {
  for (const auto* one : machine.InGroup(function.iommu_group)) {
    if (one->vfio_name.empty()) {
      return base::Fail(base::Unavailable(
          "NoIommufdDevice",
          fmt::format("could not determine iommufd device for device {}: {}",
                      one->address.SysfsName(),
                      one->vfio_name_unknown.empty() ? "the kernel has none for it"
                                                     : one->vfio_name_unknown)));
    }
    AddVfioNode("devices/" + one->vfio_name, answer);
  }
  return {};
}

// With the GPU goes all of its IOMMU group, and its address alone is named: virt-launcher takes
// addresses for the GPUs of the virtual machine one after the other.
base::Status AddFunction(const PassthroughFunction& function, const Machine& machine,
                         rpc::ContainerAllocation& answer) {
  if (machine.iommufd) TRY(AddIommufdDevices(function, machine, answer));
  for (const auto& node : NodesOf(function, machine, Client::kKubevirt)) AddVfioNode(node, answer);
  if (machine.iommufd) AddNode("/dev/iommu", answer);
  return {};
}

// A node of memory that GPUs have together is only for a virtual machine that has all of them.
void AddEgm(const std::vector<std::string>& ids, const Machine& machine,
            rpc::ContainerAllocation& answer) {
  const auto has = [&](const std::string& gpu) {
    return std::ranges::any_of(
        ids, [&](const auto& id) { return base::ToLower(id) == base::ToLower(gpu); });
  };
  for (const auto& device : machine.egm) {
    if (std::ranges::all_of(device.gpus, has)) AddNode("/dev/" + device.name, answer);
  }
}

base::Result<rpc::ContainerAllocation> ForKubevirt(const std::string& resource,
                                                   const std::vector<OfferedDevice>& offered,
                                                   const std::vector<std::string>& ids,
                                                   const Machine& machine) {
  rpc::ContainerAllocation answer;
  std::string_view variable = "PCI_RESOURCE";
  for (const auto& id : ids) {
    TRY_ASSIGN(const auto* device, FindFit(offered, id));
    if (device->functions.empty()) {
      variable = "MDEV_PCI_RESOURCE";
      AddNode(std::string(kVfioFolder), answer);
      continue;
    }
    TRY(AddFunction(*machine.Find(device->functions.front()), machine, answer));
  }
  if (ids.empty()) return answer;
  AddEgm(ids, machine, answer);
  answer.envs[gpu::VariableName(variable, resource)] = base::Join(ids, ",");
  return answer;
}

base::Result<rpc::ContainerAllocation> ForKata(const std::vector<OfferedDevice>& offered,
                                               const std::vector<std::string>& ids,
                                               const Machine& machine) {
  rpc::ContainerAllocation answer;
  for (const auto& id : ids) {
    TRY_ASSIGN(const auto* device, FindFit(offered, id));
    for (const auto& address : device->functions) {
      for (const auto& node : NodesOf(*machine.Find(address), machine, Client::kKata)) {
        AddVfioNode(node, answer);
      }
    }
  }
  return answer;
}

using Node = std::optional<int>;  // nothing: unknown, never preferred

class Preference {
 public:
  Preference(const std::vector<OfferedDevice>& offered, const rpc::PreferredRequest& request)
      : request_(request), size_(static_cast<std::size_t>(std::max(request.size, 0))) {
    for (const auto& device : offered) nodes_[device.id] = device.numa_node;
  }

  base::Result<std::vector<std::string>> Choose() {
    for (const auto& id : request_.must_include) Take(id);
    if (chosen_.size() > size_) {
      return base::Fail(base::Invalid(
          "TooManyIncluded", fmt::format("number of MustIncludeDeviceIDs ({}) exceeds allocation "
                                         "size ({})",
                                         chosen_.size(), request_.size)));
    }
    if (const auto node = NodeWithEnough()) {
      Fill([&](const std::string& id) { return NodeOf(id) == node; });
    }
    Fill([](const std::string&) { return true; });
    return std::move(chosen_);
  }

 private:
  Node NodeOf(const std::string& id) const {
    const auto found = nodes_.find(id);
    return found == nodes_.end() ? std::nullopt : found->second;
  }
  void Take(const std::string& id) {
    if (taken_.insert(id).second) chosen_.push_back(id);
  }
  template <class Wanted>
  void Fill(Wanted&& wanted) {
    for (const auto& id : request_.available) {
      if (chosen_.size() >= size_) return;
      if (wanted(id)) Take(id);
    }
  }

  // First those of the devices that are chosen already.
  Node NodeWithEnough() const {
    std::vector<std::string> candidates = chosen_;
    candidates.insert(candidates.end(), request_.available.begin(), request_.available.end());
    for (const auto& id : candidates) {
      const auto node = NodeOf(id);
      if (!node) continue;
      std::set<std::string> on_node;
      for (const auto& other : candidates) {
        if (NodeOf(other) == node) on_node.insert(other);
      }
      if (on_node.size() >= size_) return node;
    }
    return std::nullopt;
  }

  const rpc::PreferredRequest& request_;
  const std::size_t size_;
  std::map<std::string, Node> nodes_;
  std::vector<std::string> chosen_;
  std::set<std::string> taken_;
};

}  // namespace

base::Result<rpc::ContainerAllocation> Allocate(const std::string& resource,
                                                const std::vector<OfferedDevice>& offered,
                                                const std::vector<std::string>& ids,
                                                const Machine& machine, Client client) {
  return client == Client::kKata ? ForKata(offered, ids, machine)
                                 : ForKubevirt(resource, offered, ids, machine);
}

base::Result<std::vector<std::string>> Prefer(const std::vector<OfferedDevice>& offered,
                                              const rpc::PreferredRequest& request) {
  return Preference(offered, request).Choose();
}

}  // namespace pitcrew::node::sandbox_device_plugin
