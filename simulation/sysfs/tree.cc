#include "simulation/sysfs/tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/strings.h"
#include "simulation/sysfs/control.h"

namespace pitcrew::simulation::sysfs {
namespace {

std::string Parent(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string Slot(const Device& device) { return device.address.SysfsName(); }

std::string Modalias(const PciIds& ids) {
  return fmt::format("pci:v{:08X}d{:08X}sv{:08X}sd{:08X}bc{:02X}sc{:02X}i{:02X}", ids.vendor,
                     ids.device, ids.subsystem_vendor, ids.subsystem_device, ids.class_code >> 16,
                     ids.class_code >> 8 & 0xff, ids.class_code & 0xff);
}

std::string Uevent(const Device& device) {
  std::string text;
  if (!device.driver.empty()) text = "DRIVER=" + device.driver + "\n";
  return text + fmt::format(
                    "PCI_CLASS={:X}\nPCI_ID={:04X}:{:04X}\nPCI_SUBSYS_ID={:04X}:{:04X}\n"
                    "PCI_SLOT_NAME={}\nMODALIAS={}\n",
                    device.ids.class_code, device.ids.vendor, device.ids.device,
                    device.ids.subsystem_vendor, device.ids.subsystem_device, Slot(device),
                    Modalias(device.ids));
}

class Builder {
 public:
  explicit Builder(const Machine& machine) : machine_(machine) {}

  Tree Build(const Surroundings& surroundings) && {
    for (const auto& folder : surroundings.folders) tree_.AddFolder(folder);
    for (const auto& file : surroundings.files) tree_.AddFile(file, "");
    for (const auto& [path, target] : surroundings.links) tree_.AddLink(path, target);
    AddBus();
    for (const auto& [name, driver] : machine_.drivers()) AddDriver(driver);
    for (const auto& [address, device] : machine_.devices()) AddDevice(device);
    AddMdevs();
    AddNvidiaModules();
    tree_.AddFolder("/class/iommu");
    if (machine_.platform().iommu) {
      tree_.AddFolder("/devices/virtual/iommu/dmar0");
      tree_.AddLinkTo("/class/iommu/dmar0", "/devices/virtual/iommu/dmar0");
    }
    tree_.AddFolder("/kernel/iommu_groups");
    AddHostProtection();
    AddControl(machine_, tree_);
    return std::move(tree_);
  }

 private:
  void AddBus() {
    tree_.AddFolder("/bus/pci/devices");
    tree_.AddFolder("/bus/pci/drivers");
    tree_.AddFolder("/bus/pci/slots");
    tree_.AddCommand("/bus/pci/drivers_probe",
                     [](Machine& machine, std::string_view value) { return machine.Probe(value); });
    tree_.AddSetting(
        "/bus/pci/drivers_autoprobe", machine_.autoprobe() ? "1\n" : "0\n",
        [](Machine& machine, std::string_view value) { return machine.SetAutoprobe(value); });
    tree_.AddCommand("/bus/pci/rescan", [](Machine& machine, std::string_view value) {
      return machine.Rescan(value);
    });
  }

  // NVIDIA's driver is a module that others are built on (driver-lifecycle.md sections 9.6
  // and 11.2); each of those counts as a use of it, and so does every program that has it open.
  void AddNvidiaModules() {
    const NvidiaModule* nvidia = machine_.nvidia();
    if (nvidia == nullptr) return;
    std::vector<std::string> others = {"nvidia_modeset", "nvidia_uvm"};
    if (machine_.platform().framework != VgpuFramework::kNone) others = {"nvidia_vgpu_vfio"};
    for (const auto& other : others) {
      AddModule(other, *nvidia, 0);
      tree_.AddFolder("/module/" + other + "/holders");
      tree_.AddLinkTo("/module/nvidia/holders/" + other, "/module/" + other);
    }
    AddModule("nvidia", *nvidia, others.size() + (nvidia->open ? 1 : 0));
  }

  void AddModule(const std::string& name, const NvidiaModule& nvidia, std::size_t references) {
    const std::string folder = "/module/" + name;
    tree_.AddFolder(folder);
    tree_.SetIncarnation(folder, nvidia.loads);
    tree_.AddFile(folder + "/refcnt", std::to_string(references) + "\n");
    tree_.AddFile(folder + "/initstate", "live\n");
    if (!nvidia.version.empty()) tree_.AddFile(folder + "/version", nvidia.version + "\n");
  }

  // As KVM says it (virtualisation-and-olm.md section 4.5).
  void AddHostProtection() {
    const auto host = machine_.platform().confidential;
    if (host == HostProtection::kTdx) tree_.AddFile("/module/kvm_intel/parameters/tdx", "Y\n");
    if (host == HostProtection::kSnp) tree_.AddFile("/module/kvm_amd/parameters/sev_snp", "Y\n");
  }

  void AddDriver(const Driver& driver) {
    const std::string folder = "/bus/pci/drivers/" + driver.name;
    tree_.AddFolder(folder);
    if (!driver.module.empty()) {
      tree_.AddFolder("/module/" + driver.module);
      tree_.AddLinkTo(folder + "/module", "/module/" + driver.module);
    }
    using Operation = Errno (Machine::*)(std::string_view, std::string_view);
    const auto command = [&](const char* name, Operation operation) {
      tree_.AddCommand(folder + "/" + name,
                       [name = driver.name, operation](Machine& machine, std::string_view value) {
                         return (machine.*operation)(name, value);
                       });
    };
    command("bind", &Machine::Bind);
    command("unbind", &Machine::Unbind);
    command("new_id", &Machine::AddId);
    command("remove_id", &Machine::RemoveId);
  }

  void AddDevice(const Device& device) {
    const std::string folder = machine_.DevicePath(device.address);
    tree_.AddFolder(folder);
    tree_.AddLinkTo("/bus/pci/devices/" + Slot(device), folder);
    tree_.AddLinkTo(folder + "/subsystem", "/bus/pci");
    AddIdentity(device, folder);
    AddSettings(device, folder);
    if (!device.driver.empty()) {
      const std::string driver = "/bus/pci/drivers/" + device.driver;
      tree_.AddLinkTo(folder + "/driver", driver);
      tree_.AddLinkTo(driver + "/" + Slot(device), folder);
    }
    AddGroup(device, folder);
    AddConsumers(device, folder);
    AddFunctions(device, folder);
    if (machine_.IsMdevParent(device)) AddMdevTypes(device, folder);
    if (machine_.HasVendorAttributes(device)) AddVendorAttributes(device, folder);
  }

  void AddIdentity(const Device& device, const std::string& folder) {
    const PciIds& ids = device.ids;
    tree_.AddFile(folder + "/vendor", fmt::format("{:#06x}\n", ids.vendor));
    tree_.AddFile(folder + "/device", fmt::format("{:#06x}\n", ids.device));
    tree_.AddFile(folder + "/subsystem_vendor", fmt::format("{:#06x}\n", ids.subsystem_vendor));
    tree_.AddFile(folder + "/subsystem_device", fmt::format("{:#06x}\n", ids.subsystem_device));
    tree_.AddFile(folder + "/class", fmt::format("{:#08x}\n", ids.class_code));
    tree_.AddFile(folder + "/revision", "0xa1\n");
    tree_.AddFile(folder + "/modalias", Modalias(ids) + "\n");
    tree_.AddFile(folder + "/uevent", Uevent(device));
    tree_.AddFile(folder + "/resource", device.resource);
    tree_.AddSetting(folder + "/config", device.config,
                     [](Machine&, std::string_view) { return 0; });
    if (machine_.processors().contains(device.address)) tree_.AddRegisters(folder + "/resource0");
    tree_.AddFile(folder + "/local_cpulist", device.cpus + "\n");
    tree_.AddFile(folder + "/irq", "0\n");
    if (ids.class_code >> 8 == 0x0300) {
      tree_.AddFile(folder + "/boot_vga", device.boot_vga ? "1\n" : "0\n");
    }
  }

  void AddSettings(const Device& device, const std::string& folder) {
    const PciAddress address = device.address;
    const auto accept = [](Machine&, std::string_view) { return 0; };
    tree_.AddSetting(folder + "/driver_override",
                     (device.driver_override.empty() ? "(null)" : device.driver_override) + "\n",
                     [address](Machine& machine, std::string_view value) {
                       return machine.SetOverride(address, value);
                     });
    tree_.AddSetting(folder + "/numa_node", std::to_string(device.numa_node) + "\n", accept);
    tree_.AddSetting(folder + "/enable", device.driver.empty() ? "0\n" : "1\n", accept);
    tree_.AddCommand(folder + "/remove", [address](Machine& machine, std::string_view value) {
      return machine.Remove(address, value);
    });
    tree_.AddCommand(folder + "/rescan", [](Machine& machine, std::string_view value) {
      return machine.Rescan(value);
    });
    tree_.AddCommand(folder + "/reset", [address](Machine& machine, std::string_view) {
      return machine.Reset(address);
    });
    tree_.AddSetting(folder + "/reset_method", "flr\n", accept);
  }

  void AddGroup(const Device& device, const std::string& folder) {
    if (!device.group) return;
    AddGroupOf(*device.group, Slot(device), folder);
    tree_.AddLinkTo(folder + "/iommu", "/devices/virtual/iommu/dmar0");
    if (!device.character) return;
    const std::string character = folder + "/vfio-dev/vfio" + std::to_string(*device.character);
    tree_.AddFolder(character);
    tree_.AddFile(character + "/dev", "511:" + std::to_string(*device.character) + "\n");
    tree_.AddLinkTo(character + "/device", folder);
    tree_.AddLinkTo("/class/vfio-dev/vfio" + std::to_string(*device.character), character);
  }

  void AddGroupOf(std::uint32_t number, const std::string& name, const std::string& folder) {
    const std::string group = "/kernel/iommu_groups/" + std::to_string(number);
    tree_.AddFolder(group + "/devices");
    tree_.AddFile(group + "/type", "DMA-FQ\n");
    tree_.AddFile(group + "/reserved_regions", "0x00000000fee00000 0x00000000feefffff msi\n");
    tree_.AddLinkTo(group + "/devices/" + name, folder);
    tree_.AddLinkTo(folder + "/iommu_group", group);
  }

  // Device links: what the kernel makes so that a card's functions sleep and wake in order.
  void AddConsumers(const Device& device, const std::string& folder) {
    for (const auto& address : device.consumers) {
      const Device* consumer = machine_.Find(address);
      if (consumer == nullptr) continue;
      const std::string link =
          fmt::format("/devices/virtual/devlink/pci:{}--pci:{}", Slot(device), Slot(*consumer));
      tree_.AddFolder(link);
      tree_.AddFile(link + "/status", device.driver.empty() ? "dormant\n" : "available\n");
      tree_.AddLinkTo(folder + "/consumer:pci:" + Slot(*consumer), link);
      tree_.AddLinkTo(machine_.DevicePath(address) + "/supplier:pci:" + Slot(device), link);
    }
  }

  void AddFunctions(const Device& device, const std::string& folder) {
    if (device.physical) {
      tree_.AddLinkTo(folder + "/physfn", machine_.DevicePath(*device.physical));
      return;
    }
    if (device.total_functions == 0) return;
    const PciAddress address = device.address;
    tree_.AddFile(folder + "/sriov_totalvfs", std::to_string(device.total_functions) + "\n");
    tree_.AddFile(folder + "/sriov_vf_device", fmt::format("{:x}\n", device.ids.device));
    tree_.AddFile(folder + "/sriov_offset", "4\n");
    tree_.AddFile(folder + "/sriov_stride", "1\n");
    tree_.AddSetting(folder + "/sriov_numvfs", std::to_string(device.functions) + "\n",
                     [address](Machine& machine, std::string_view value) {
                       return machine.SetFunctions(address, value);
                     });
    tree_.AddSetting(folder + "/sriov_drivers_autoprobe", device.probe_functions ? "1\n" : "0\n",
                     [address](Machine& machine, std::string_view value) {
                       return machine.SetFunctionsProbe(address, value);
                     });
    std::size_t index = 0;
    for (const Device* function : machine_.FunctionsOf(device.address)) {
      tree_.AddLinkTo(folder + "/virtfn" + std::to_string(index++),
                      machine_.DevicePath(function->address));
    }
  }

  [[nodiscard]] const Gpu& GpuOf(const Device& device) const {
    return machine_.gpus()[*device.gpu];
  }

  // How many of each of the GPU's types fit on the device; looked for once for each GPU.
  std::vector<std::pair<const VgpuType*, std::uint32_t>> AvailableOn(const Device& device) {
    auto& rooms = rooms_[*device.gpu];
    if (rooms.empty()) {
      for (const auto& type : GpuOf(device).types) {
        rooms.emplace_back(&type, machine_.Room(*device.gpu, type));
      }
    }
    const bool has_share = machine_.Share(device, 1) != 0;
    auto available = rooms;
    for (auto& [type, count] : available) {
      count = !device.physical ? count : has_share ? std::min(count, 1u) : 0;
    }
    return available;
  }

  void AddMdevTypes(const Device& device, const std::string& folder) {
    tree_.AddLinkTo("/class/mdev_bus/" + Slot(device), folder);
    for (const auto& [one, available] : AvailableOn(device)) {
      const VgpuType& type = *one;
      const std::string here = folder + "/mdev_supported_types/nvidia-" + std::to_string(type.id);
      tree_.AddFolder(here + "/devices");
      tree_.AddFile(here + "/name", type.name + "\n");
      tree_.AddFile(here + "/device_api", "vfio-pci\n");
      tree_.AddFile(here + "/available_instances", std::to_string(available) + "\n");
      tree_.AddFile(here + "/description",
                    fmt::format("num_heads=1, frl_config=60, framebuffer={}M, "
                                "max_resolution=4096x2160, max_instance={}\n",
                                type.framebuffer_gib * 1024, type.count));
      tree_.AddCommand(here + "/create", [address = device.address, id = type.id](
                                             Machine& machine, std::string_view value) {
        return machine.CreateMdev(address, id, value);
      });
    }
  }

  void AddMdevs() {
    if (machine_.platform().framework != VgpuFramework::kMdev) return;
    if (!machine_.drivers().contains("nvidia")) return;
    tree_.AddFolder("/bus/mdev/devices");
    tree_.AddFolder("/bus/mdev/drivers/vfio_mdev");
    tree_.AddFolder("/class/mdev_bus");
    for (const auto& [uuid, mdev] : machine_.mdevs()) {
      const std::string parent = machine_.DevicePath(mdev.parent);
      const std::string folder = parent + "/" + uuid;
      const std::string type = parent + "/mdev_supported_types/nvidia-" + std::to_string(mdev.type);
      tree_.AddFolder(folder);
      tree_.AddLinkTo("/bus/mdev/devices/" + uuid, folder);
      tree_.AddLinkTo("/bus/mdev/drivers/vfio_mdev/" + uuid, folder);
      tree_.AddLinkTo(folder + "/subsystem", "/bus/mdev");
      tree_.AddLinkTo(folder + "/driver", "/bus/mdev/drivers/vfio_mdev");
      tree_.AddLinkTo(folder + "/mdev_type", type);
      tree_.AddLinkTo(type + "/devices/" + uuid, folder);
      tree_.AddFile(folder + "/uevent", "DRIVER=vfio_mdev\n");
      tree_.AddSetting(folder + "/nvidia/vgpu_params", "\n",
                       [](Machine&, std::string_view) { return 0; });
      AddGroupOf(mdev.group, uuid, folder);
      tree_.AddCommand(folder + "/remove", [uuid = uuid](Machine& machine, std::string_view value) {
        return machine.RemoveMdev(uuid, value);
      });
    }
  }

  // The published files of NVIDIA's driver: a header, then every type that still fits.
  void AddVendorAttributes(const Device& device, const std::string& folder) {
    std::string creatable = "ID    : vGPU Name\n";
    for (const auto& [type, available] : AvailableOn(device)) {
      if (available != 0) creatable += fmt::format("{:<5} : {}\n", type->id, type->name);
    }
    tree_.AddFile(folder + "/nvidia/creatable_vgpu_types", creatable);
    tree_.AddSetting(folder + "/nvidia/current_vgpu_type", std::to_string(device.vgpu_type) + "\n",
                     [address = device.address](Machine& machine, std::string_view value) {
                       return machine.SetVgpuType(address, value);
                     });
  }

  const Machine& machine_;
  std::map<std::size_t, std::vector<std::pair<const VgpuType*, std::uint32_t>>> rooms_;
  Tree tree_;
};

}  // namespace

const Node* Tree::Find(std::string_view path) const {
  const auto found = nodes_.find(path);
  return found == nodes_.end() ? nullptr : &found->second;
}

Node& Tree::Add(const std::string& path, Node node) {
  if (path != "/") {
    const std::string parent = Parent(path);
    AddFolder(parent);
    nodes_.find(parent)->second.children.insert(path.substr(path.rfind('/') + 1));
  }
  return nodes_.insert_or_assign(path, std::move(node)).first->second;
}

void Tree::AddFolder(const std::string& path) {
  if (!nodes_.contains(path)) Add(path, {});
}

void Tree::AddLink(const std::string& path, const std::string& target) {
  Add(path, {Node::Kind::kLink, 0777, target, target.size(), {}, {}});
}

void Tree::AddFile(const std::string& path, std::string content, unsigned mode) {
  Add(path, {Node::Kind::kFile, mode, std::move(content), 4096, {}, {}});
}

void Tree::AddCommand(const std::string& path,
                      std::function<Errno(Machine&, std::string_view)> store) {
  Add(path, {Node::Kind::kFile, 0200, {}, 4096, std::move(store), {}});
}

void Tree::AddSetting(const std::string& path, std::string content,
                      std::function<Errno(Machine&, std::string_view)> store) {
  Add(path, {Node::Kind::kFile, 0644, std::move(content), 4096, std::move(store), {}});
}

void Tree::AddRegisters(const std::string& path) {
  Node& node = Add(path, {Node::Kind::kFile, 0600, {}, kRegisterBytes, {}, {}});
  node.is_registers = true;
}

void Tree::SetIncarnation(const std::string& path, std::uint64_t incarnation) {
  nodes_.find(path)->second.incarnation = incarnation;
}

void Tree::AddLinkTo(const std::string& from, const std::string& to) {
  auto here = base::Split(Parent(from).substr(1), '/');
  auto there = base::Split(to.substr(1), '/');
  const auto [a, b] = std::ranges::mismatch(here, there);
  std::string target;
  for (auto step = a; step != here.end(); ++step) target += "../";
  target += base::Join({b, there.end()}, "/");
  if (target.ends_with('/')) target.pop_back();  // to a folder on the way
  AddLink(from, target);
}

Tree BuildTree(const Machine& machine, const Surroundings& surroundings) {
  return Builder(machine).Build(surroundings);
}

}  // namespace pitcrew::simulation::sysfs
