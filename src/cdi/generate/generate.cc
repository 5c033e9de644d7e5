#include "cdi/generate/generate.h"

#include <fmt/format.h>

#include <algorithm>

#include "cdi/generate/device_ids.h"
#include "cdi/generate/edits.h"
#include "cdi/generate/gpu_edits.h"

namespace pitcrew::cdi_generate {
namespace {

// A device before it has names.
struct Nameless {
  const gpu::Device* parent = nullptr;
  const gpu::MigDevice* mig = nullptr;  // null for a full GPU
  cdi::ContainerEdits edits;
};

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

// A GPU in MIG mode that has no instance, as all have after the node has started.
bool AwaitsDivision(const gpu::Device& device) {
  return !device.fault && device.IsMigEnabled() && device.mig_devices.empty() &&
         !gpu::IsSkippedDeviceName(device.name);
}

void AddNamed(const Nameless& device, const Options& options, std::vector<cdi::Device>& devices) {
  for (const auto naming : options.naming) {
    devices.push_back({NameFor(*device.parent, device.mig, naming),
                       AnnotationsOf(*device.parent, device.mig, options), device.edits});
  }
}

// GPUs in MIG mode themselves.
std::vector<cdi::Device> DividedGpus(const gpu::Inventory& inventory, const DriverFiles& files,
                                     const Options& options, std::vector<base::Error>& omitted) {
  std::vector<cdi::Device> devices;
  if (!options.divided_gpus || !MeansAllDevices(options.ids)) return devices;
  for (const auto& device : inventory.devices) {
    if (device.fault || !device.IsMigEnabled() || gpu::IsSkippedDeviceName(device.name)) continue;
    if (auto edits = EditsOf(device, nullptr, files, options)) {
      AddNamed({&device, nullptr, *std::move(edits)}, options, devices);
    } else {
      omitted.push_back(edits.error().Within(device.uuid));
    }
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
  if (devices.empty() && options.divided_gpus &&
      std::ranges::any_of(inventory.devices, AwaitsDivision)) {
    // A device must have edits: one of those that all containers get.
    out.spec.devices = {{"all", {}, {}}};
    out.spec.devices[0].edits.env.emplace_back(kNothingVisible);
    return {};
  }
  if (devices.empty()) {
    std::string why;
    for (const auto& error : out.omitted) why += "; " + error.message;
    return base::Fail(base::NotFound("NoDevices", "no GPU can be offered through CDI" + why));
  }
  for (const auto& device : devices) AddNamed(device, options, out.spec.devices);
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
  AddControlNodes(files, options, out.spec.edits);
  AddDriver(files, options, true, out.spec.edits);
  AddHook("disable-device-node-modification", {}, options, out.spec.edits);
  AddHook("update-application-profile", {}, options, out.spec.edits);
  Assemble(out.spec, options.merged_device && !MeansNoDevice(options.ids),
           DividedGpus(inventory, files, options, out.omitted));
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
