#include "node/sandbox_device_plugin/offers.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

namespace pitcrew::node::sandbox_device_plugin {
namespace {

using Kind = PassthroughFunction::Kind;

// What Kata's plugin calls a device that the database does not have.
constexpr std::string_view kUnknownForKata = "UNKNOWN_DEVICE";

std::string ResourceOf(std::string_view name) { return fmt::format("nvidia.com/{}", name); }

class Lister {
 public:
  Lister(const Machine& machine, const Naming& naming) : machine_(machine), naming_(naming) {}

  Offers List(const Resources& before) {
    for (const auto& function : machine_.functions) {
      if (function.kind == Kind::kCompanion) continue;
      if (naming_.client == Client::kKubevirt) {
        AddForKubevirt(function);
      } else if (function.kind != Kind::kVgpu) {
        AddForKata(function);
      }
    }
    if (naming_.client == Client::kKubevirt) {
      for (const auto& vgpu : machine_.vgpus) AddVgpu(vgpu);
      WarnOfSharedGroups();
    }
    KeepUnreadable(before);
    return std::move(offers_);
  }

 private:
  void Warn(std::string sentence) { offers_.warnings.push_back(std::move(sentence)); }

  // A name that the kubelet would refuse is none.
  std::string UsableName(const PassthroughFunction& function, std::string name,
                         std::string_view otherwise) {
    if (gpu::IsUsableName(name)) return name;
    if (named_.insert(function.device).second) {
      Warn(name.empty()
               ? fmt::format("the PCI ID database has no device {}: it is offered as {}",
                             gpu::DeviceIdText(function.device), ResourceOf(otherwise))
               : fmt::format("device {} would be {}, which is no name for a resource: it is "
                             "offered as {}",
                             gpu::DeviceIdText(function.device), ResourceOf(name),
                             ResourceOf(otherwise)));
    }
    return std::string(otherwise);
  }

  std::string NameOf(const PassthroughFunction& function) {
    const auto in_database = naming_.names.Find(function.device);
    if (naming_.client == Client::kKubevirt) {
      return UsableName(function, gpu::KubevirtName(in_database),
                        gpu::DeviceIdText(function.device));
    }
    const auto& alias = function.kind == Kind::kGpu ? naming_.gpu_alias : naming_.switch_alias;
    if (!alias.empty()) return alias;
    return UsableName(function, gpu::KataName(in_database), kUnknownForKata);
  }

  // The first thing that keeps a virtual machine from it.
  std::string WhyUnfit(const PassthroughFunction& function) const {
    const auto blocked = machine_.blocked_groups.find(function.iommu_group);
    if (blocked != machine_.blocked_groups.end()) return blocked->second;
    if (machine_.iommufd && function.vfio_name.empty()) {
      return function.vfio_name_unknown.empty()
                 ? "the kernel has /dev/iommu, but no iommufd device for it"
                 : function.vfio_name_unknown;
    }
    if (!machine_.vfio_nodes) return "";
    for (const auto& node : NodesOf(function, machine_, naming_.client)) {
      if (!machine_.vfio_nodes->contains(node)) {
        return fmt::format("/dev/vfio/{} is not there", node);
      }
    }
    return "";
  }

  void AddForKubevirt(const PassthroughFunction& function) {
    std::string name;
    if (function.kind != Kind::kVgpu) {
      name = NameOf(function);
    } else if (IsUsableVgpu(function.address.SysfsName(), function.vgpu_type)) {
      name = function.vgpu_type;
    } else {
      return;
    }
    offers_.resources[ResourceOf(name)].push_back({.id = function.address.SysfsName(),
                                                   .numa_node = function.numa_node,
                                                   .functions = {function.address},
                                                   .unfit = WhyUnfit(function)});
  }

  // One device has all functions whose number is the same: the kernel does not give them apart.
  void AddForKata(const PassthroughFunction& function) {
    std::string id = std::to_string(function.iommu_group);
    if (machine_.iommufd) {
      if (function.vfio_name.empty()) {
        return Warn(
            fmt::format("{} is left out: {}", function.address.SysfsName(), WhyUnfit(function)));
      }
      id = function.vfio_name.substr(std::string_view("vfio").size());
    }
    const auto resource = ResourceOf(NameOf(function));
    if (const auto [place, is_new] = kata_.try_emplace(id, resource); !is_new) {
      auto& devices = offers_.resources[place->second];
      std::ranges::find(devices, id, &OfferedDevice::id)->functions.push_back(function.address);
      if (place->second != resource) {
        Warn(fmt::format("{} goes with a device of {}: they share IOMMU group {}",
                         function.address.SysfsName(), place->second, function.iommu_group));
      }
      return;
    }
    offers_.resources[resource].push_back({.id = id,
                                           .numa_node = function.numa_node,
                                           .functions = {function.address},
                                           .unfit = WhyUnfit(function)});
  }

  // The type of a vGPU is its only name.
  bool IsUsableVgpu(const std::string& id, const std::string& type) {
    if (gpu::IsUsableName(type)) return true;
    Warn(fmt::format("vGPU {} is left out: {} is no name for a resource", id, ResourceOf(type)));
    return false;
  }

  void AddVgpu(const Vgpu& vgpu) {
    if (!IsUsableVgpu(vgpu.uuid, vgpu.name)) return;
    offers_.resources[ResourceOf(vgpu.name)].push_back(
        {.id = vgpu.uuid, .numa_node = vgpu.numa_node, .functions = {}, .unfit = ""});
  }

  void WarnOfSharedGroups() {
    std::map<std::uint32_t, std::vector<std::string>> groups;
    for (const auto& function : machine_.functions) {
      if (function.kind == Kind::kCompanion) continue;
      groups[function.iommu_group].push_back(function.address.SysfsName());
    }
    for (const auto& [group, members] : groups) {
      if (members.size() < 2) continue;
      Warn(
          fmt::format("{} are in one IOMMU group ({}): only one virtual machine at a time can "
                      "have any of them",
                      fmt::join(members, ", "), group));
    }
  }

  bool IsOffered(const OfferedDevice& device) const {
    return std::ranges::any_of(offers_.resources, [&](const auto& resource) {
      return std::ranges::find(resource.second, device.id, &OfferedDevice::id) !=
             resource.second.end();
    });
  }

  std::string WhyUnreadable(const OfferedDevice& device) const {
    auto names = std::vector<std::string>{device.id};
    for (const auto& function : device.functions) names.push_back(function.SysfsName());
    for (const auto& name : names) {
      const auto found = machine_.unreadable.find(name);
      if (found != machine_.unreadable.end()) return "it cannot be read: " + found->second;
    }
    return "";
  }

  void KeepUnreadable(const Resources& before) {
    for (const auto& [resource, devices] : before) {
      for (const auto& device : devices) {
        auto why = WhyUnreadable(device);
        if (why.empty() || IsOffered(device)) continue;
        auto kept = device;
        kept.unfit = std::move(why);
        offers_.resources[resource].push_back(std::move(kept));
      }
    }
  }

  const Machine& machine_;
  const Naming& naming_;
  Offers offers_;
  std::set<std::uint16_t> named_;            // device ids that were warned of
  std::map<std::string, std::string> kata_;  // id to resource
};

}  // namespace

std::vector<std::string> NodesOf(const PassthroughFunction& function, const Machine& machine,
                                 Client client) {
  std::vector<std::string> nodes;
  const auto group = std::to_string(function.iommu_group);
  if (machine.iommufd) {
    nodes.push_back("devices/" + function.vfio_name);
    const bool no_groups = machine.vfio_nodes && !machine.vfio_nodes->contains(group);
    if (client == Client::kKata || no_groups) return nodes;
  }
  nodes.emplace_back("vfio");
  nodes.push_back(group);
  return nodes;
}

Offers ListOffers(const Machine& machine, const Naming& naming, const Resources& before) {
  return Lister(machine, naming).List(before);
}

}  // namespace pitcrew::node::sandbox_device_plugin
