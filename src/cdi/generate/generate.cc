#include "cdi/generate/generate.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/strings.h"
#include "cdi/generate/device_ids.h"
#include "cdi/generate/edits.h"

namespace pitcrew::cdi_generate {
namespace {

constexpr std::string_view kControlNodes[] = {"/dev/nvidia-modeset", "/dev/nvidia-uvm-tools",
                                              "/dev/nvidia-uvm", "/dev/nvidiactl"};

// A device before it has names.
struct Nameless {
  const gpu::Device* parent = nullptr;
  const gpu::MigDevice* mig = nullptr;  // null for a full GPU
  cdi::ContainerEdits edits;
};

std::string NameFor(const Nameless& device, Naming naming) {
  const auto gpu_index = device.parent->index;
  switch (naming) {
    case Naming::kIndex:
      return device.mig ? fmt::format("{}:{}", gpu_index, device.mig->index)
                        : fmt::format("{}", gpu_index);
    case Naming::kTypeIndex:
      return device.mig ? fmt::format("mig{}:{}", gpu_index, device.mig->index)
                        : fmt::format("gpu{}", gpu_index);
    case Naming::kUuid:
      return device.mig ? device.mig->uuid : device.parent->uuid;
  }
  return {};
}

// DRI nodes of the GPU and the by-path links that point at them.
void AddDri(const gpu::Device& device, const DriverFiles& files, const Options& options,
            cdi::ContainerEdits& edits) {
  const std::string address = device.pci.SysfsName();
  const auto names = files.dri_names.find(address);
  if (names == files.dri_names.end()) return;
  std::vector<std::string> links;
  for (const auto& name : names->second) {
    if (const Node* node = files.FindNode("/dev/dri/" + name)) AddNode(*node, options, edits);
  }
  for (const auto* kind : {"card", "render"}) {
    const std::string path = fmt::format("/dev/dri/by-path/pci-{}-{}", address, kind);
    const auto link = std::ranges::find(files.by_path_links, path, &Link::path);
    if (link == files.by_path_links.end()) continue;
    const std::string name = link->target.substr(link->target.rfind('/') + 1);
    if (std::ranges::find(names->second, name) == names->second.end()) continue;
    links.emplace_back("--link");
    links.push_back(link->target + "::" + link->path);
  }
  if (!links.empty()) AddHook("create-symlinks", links, options, edits);
}

base::Status AddGpuNode(const gpu::Device& device, const DriverFiles& files, const Options& options,
                        cdi::ContainerEdits& edits) {
  const std::string path = fmt::format("/dev/nvidia{}", device.minor_number);
  const Node* node = files.FindNode(path);
  if (node == nullptr) {
    return base::Fail(base::NotFound(
        "DeviceNodeMissing",
        fmt::format("GPU {} ({}) has no device node {}", device.index, device.uuid, path)));
  }
  AddNode(*node, options, edits);
  return {};
}

base::Status AddMigCapability(const std::string& key, const DriverFiles& files,
                              const Options& options, cdi::ContainerEdits& edits) {
  if (!files.mig_minors) {
    return base::Fail(base::NotFound("MigMinorsMissing",
                                     "the kernel does not list MIG capabilities "
                                     "(/proc/driver/nvidia-caps/mig-minors is missing)"));
  }
  const auto minor = files.mig_minors->find(key);
  if (minor == files.mig_minors->end()) {
    return base::Fail(
        base::NotFound("MigMinorMissing", "the kernel lists no MIG capability " + key));
  }
  const std::string path = fmt::format("/dev/nvidia-caps/nvidia-cap{}", minor->second);
  const Node* node = files.FindNode(path);
  if (node == nullptr) {
    return base::Fail(
        base::NotFound("DeviceNodeMissing", fmt::format("{} for {} is missing", path, key)));
  }
  AddNode(*node, options, edits);
  return {};
}

base::Result<cdi::ContainerEdits> EditsOf(const gpu::Device& device, const gpu::MigDevice* mig,
                                          const DriverFiles& files, const Options& options) {
  cdi::ContainerEdits edits;
  TRY(AddGpuNode(device, files, options, edits));
  if (mig == nullptr) {
    AddDri(device, files, options, edits);
    AddFolderModes({"/dev/dri", "/dev/nvidia-caps"}, options, edits);
    return edits;
  }
  const std::string instance = fmt::format("gpu{}/gi{}", device.minor_number, mig->gpu_instance_id);
  TRY(AddMigCapability(instance + "/access", files, options, edits));
  TRY(AddMigCapability(fmt::format("{}/ci{}/access", instance, mig->compute_instance_id), files,
                       options, edits));
  const auto& attributes = mig->profile.attributes;
  if (std::ranges::find(attributes, "gfx") != attributes.end())
    AddDri(device, files, options, edits);
  return edits;
}

// Every device that can be offered; the others stand in `omitted`.
std::vector<Nameless> CollectDevices(const gpu::Inventory& inventory, const DriverFiles& files,
                                     const Options& options, std::vector<base::Error>& omitted) {
  std::vector<Nameless> devices;
  const auto add = [&](const gpu::Device& device, const gpu::MigDevice* mig) {
    auto edits = EditsOf(device, mig, files, options);
    if (edits) {
      devices.push_back({&device, mig, *std::move(edits)});
    } else {
      omitted.push_back(edits.error().Within(mig != nullptr ? mig->uuid : device.uuid));
    }
  };
  for (const auto& device : inventory.devices) {
    if (gpu::IsSkippedDeviceName(device.name)) continue;
    if (device.fault) {
      omitted.push_back(device.fault->Within(fmt::format("GPU {}", device.index)));
    } else if (!device.IsMigEnabled()) {
      add(device, nullptr);
    }
  }
  for (const auto& device : inventory.devices) {
    if (device.fault || !device.IsMigEnabled() || gpu::IsSkippedDeviceName(device.name)) continue;
    for (const auto& mig : device.mig_devices) add(device, &mig);
  }
  return devices;
}

// Those that the ids mean. A GPU in MIG mode may be asked for.
base::Result<std::vector<Nameless>> ChosenDevices(const gpu::Inventory& inventory,
                                                  const DriverFiles& files,
                                                  const Options& options) {
  TRY_ASSIGN(const auto chosen, ChooseDevices(inventory, options.ids));
  std::vector<Nameless> devices;
  for (const auto& one : chosen) {
    if (one.gpu->fault) {
      return base::Fail(one.gpu->fault->Within(fmt::format("GPU {}", one.gpu->index)));
    }
    TRY_ASSIGN(auto edits, EditsOf(*one.gpu, one.mig, files, options));
    devices.push_back({one.gpu, one.mig, std::move(edits)});
  }
  return devices;
}

base::Status AddDevices(const gpu::Inventory& inventory, const DriverFiles& files,
                        const Options& options, Generated& out) {
  if (MeansNoDevice(options.ids)) {
    cdi::Device none{"none", {}, {}};
    none.edits.env = {"NVCT_EMPTY_DEVICE="};
    out.spec.devices = {std::move(none)};
    return {};
  }
  std::vector<Nameless> devices;
  if (MeansAllDevices(options.ids)) {
    devices = CollectDevices(inventory, files, options, out.omitted);
  } else {
    TRY_ASSIGN(devices, ChosenDevices(inventory, files, options));
  }
  if (devices.empty()) {
    std::string why;
    for (const auto& error : out.omitted) why += "; " + error.message;
    return base::Fail(base::NotFound("NoDevices", "no GPU can be offered through CDI" + why));
  }
  for (const auto naming : options.naming) {
    for (const auto& device : devices) {
      out.spec.devices.push_back({NameFor(device, naming), {}, device.edits});
    }
  }
  return {};
}

bool IsManagementNode(const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  if (path.starts_with("/dev/nvidia-caps/")) return name.starts_with("nvidia-cap");
  if (path.starts_with("/dev/nvidia-caps-imex-channels/")) return name.starts_with("channel");
  if (path.starts_with("/dev/dri/")) return false;
  return !name.starts_with("nvidia-fs") && !name.starts_with("nvidia-nvswitch") &&
         !name.starts_with("nvidia-nvlink");
}

}  // namespace

base::Result<Generated> GenerateGpus(const gpu::Inventory& inventory, const DriverFiles& files,
                                     const Options& options) {
  Generated out;
  out.spec.kind = options.kind;
  TRY(AddDevices(inventory, files, options, out));
  for (const auto path : kControlNodes) {
    if (const Node* node = files.FindNode(std::string(path))) {
      AddNode(*node, options, out.spec.edits);
    }
  }
  AddDriver(files, options, true, out.spec.edits);
  AddHook("disable-device-node-modification", {}, options, out.spec.edits);
  AddHook("update-application-profile", {}, options, out.spec.edits);
  Assemble(out.spec, options.merged_device && !MeansNoDevice(options.ids));
  return out;
}

base::Result<cdi::Spec> GenerateManagement(const DriverFiles& files, const Options& options) {
  cdi::Spec spec;
  spec.kind = options.kind;
  cdi::Device all{"all", {}, {}};
  for (const auto& node : files.nodes) {
    if (IsManagementNode(node.path)) AddNode(node, options, all.edits);
  }
  if (all.edits.device_nodes.empty()) {
    return base::Fail(base::NotFound("NoDeviceNodes",
                                     fmt::format("no NVIDIA device nodes found below {}/dev",
                                                 options.dev_root == "/" ? "" : options.dev_root)));
  }
  AddFolderModes({"/dev/nvidia-caps"}, options, all.edits);
  spec.devices.push_back(std::move(all));
  AddDriver(files, options, false, spec.edits);
  Assemble(spec, false);
  return spec;
}

}  // namespace pitcrew::cdi_generate
