#include "node/toolkit/cdi_specs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>

#include "base/log.h"
#include "base/strings.h"
#include "cdi/driver_annotations.h"
#include "cdi/format.h"
#include "cdi/generate/generate.h"
#include "cdi/generate/locate.h"
#include "host/device_node.h"
#include "host/kernel.h"
#include "host/platform.h"
#include "node/toolkit/tegra_spec.h"
#include "node/toolkit/wsl_spec.h"
#include "nvml/nvml.h"

namespace pitcrew::node::toolkit {
namespace {

// Kind of the devices that the runtime resolves unqualified names with (shim/requests.h).
const std::string kRuntimeKind(cdi::kRuntimeKind);

std::string DevRoot(const Options& options) {
  return options.dev_root.empty() ? options.driver_root : options.dev_root;
}

std::filesystem::path DevRootHere(const Options& options) {
  return options.dev_root_container.empty() ? options.driver_root_container
                                            : options.dev_root_container;
}

std::filesystem::path SpecPath(const Options& options, const std::string& kind) {
  return options.cdi_folder / (cdi::SpecFileStem(kind) + ".yaml");
}

cdi_generate::Options GenerateOptions(const Options& options, const std::string& kind) {
  cdi_generate::Options generate;
  generate.kind = kind;
  generate.driver_root = options.driver_root;
  generate.dev_root = DevRoot(options);
  generate.hook_path = (options.toolkit_folder() / "nvidia-cdi-hook").string();
  return generate;
}

base::Status WriteIfChanged(const std::filesystem::path& path, cdi::Spec spec) {
  const auto kind = spec.kind;
  const auto devices = spec.devices.size();
  TRY_ASSIGN(const bool written, cdi::UpdateSpecFile(path, std::move(spec)));
  if (written) {
    base::LogInfo("Wrote a CDI specification",
                  {{"file", path.string()}, {"kind", kind}, {"devices", devices}});
  }
  return {};
}

base::Result<gpu::Inventory> ReadInventory(const Options& options) {
  TRY_ASSIGN(const auto library, nvml::Library::Open({options.driver_root_container}));
  return library->ReadInventory();
}

// NVML's numbers of brands, in the words of images' requirements.
std::string_view BrandName(unsigned brand) {
  static constexpr std::array<std::string_view, 17> kNames = {
      "unknown",   "quadro",      "tesla",     "nvs",        "grid",      "geforce",
      "titan",     "nvidiavapps", "nvidiavpc", "nvidiavcs",  "nvidiavws", "nvidiacloudgaming",
      "quadrortx", "nvidiartx",   "nvidia",    "geforcertx", "titanrtx"};
  return brand < kNames.size() ? kNames[brand] : kNames[0];
}

// The GPU that a device of the specification is, or is a part of: "0", "0:1", "GPU-...", "MIG-...".
const gpu::Device* GpuOf(const std::string& name, const gpu::Inventory& inventory) {
  const auto index = base::ParseUnsigned(name.substr(0, name.find(':')));
  const auto found = std::ranges::find_if(inventory.devices, [&](const gpu::Device& device) {
    return index ? device.index == *index
                 : device.uuid == name ||
                       std::ranges::find(device.mig_devices, name, &gpu::MigDevice::uuid) !=
                           device.mig_devices.end();
  });
  return found == inventory.devices.end() ? nullptr : &*found;
}

}  // namespace

std::filesystem::path DevFolderHere(const Options& options) { return DevRootHere(options) / "dev"; }

void DescribeDriver(const gpu::Inventory& inventory, cdi::Spec& spec) {
  if (inventory.cuda_version != 0) {
    spec.annotations[std::string(cdi::kCudaVersion)] =
        fmt::format("{}.{}", inventory.CudaMajor(), inventory.CudaMinor());
  }
  spec.annotations[std::string(cdi::kDriverVersion)] = inventory.driver_version;
  for (auto& device : spec.devices) {
    const auto* gpu = GpuOf(device.name, inventory);
    if (gpu == nullptr || gpu->fault) continue;
    device.annotations[std::string(cdi::kComputeCapability)] = gpu->compute_capability.ToString();
    device.annotations[std::string(cdi::kBrand)] = BrandName(gpu->brand);
  }
}

namespace {

// The specification for unqualified names, and what is not in it. Only a driver that answers
// without any GPU removes an earlier one.
base::Result<std::vector<base::Error>> WriteRuntimeSpec(const Options& options,
                                                        const gpu::Inventory& inventory,
                                                        const cdi_generate::DriverFiles& files) {
  const auto path = SpecPath(options, kRuntimeKind);
  auto generate = GenerateOptions(options, kRuntimeKind);
  generate.divided_gpus = true;
  auto generated = cdi_generate::GenerateGpus(inventory, files, generate);
  if (!generated && !inventory.devices.empty()) return base::Fail(generated.error());
  if (!generated) {
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
      return base::Fail(base::FromErrno(errno, "remove " + path.string()));
    }
    base::LogWarning("There are no GPUs to request by index or UUID", generated.error());
    return {};
  }
  DescribeDriver(inventory, generated->spec);
  TRY(WriteIfChanged(path, std::move(generated->spec)));
  return std::move(generated->omitted);
}

host::Platform PlatformOf(const host::Root& driver_root,
                          const base::Result<gpu::Inventory>& inventory) {
  std::vector<std::string> names;
  if (inventory) {
    for (const auto& device : inventory->devices) names.push_back(device.name);
  }
  return host::FindPlatform(driver_root, names);
}

// Its driver is no package of libraries with a version, so there is only what its lists name.
base::Status WriteTegraSpec(const Options& options, const base::Result<gpu::Inventory>& inventory) {
  const host::Root root(options.driver_root_container);
  TegraRequest request;
  request.locate.driver_root = root;
  request.locate.dev_root = host::Root(DevRootHere(options));
  request.lists = TegraListsBelow(root);
  request.lists_folder = cdi::kUsualListsFolder;
  TRY_ASSIGN(auto spec, GenerateTegraSpec(inventory ? &*inventory : nullptr, request,
                                          GenerateOptions(options, kRuntimeKind)));
  return WriteIfChanged(SpecPath(options, kRuntimeKind), std::move(spec));
}

// There is one device, whichever GPU is asked for: it has all names that NVML tells.
base::Status WriteWslSpec(const Options& options, const base::Result<gpu::Inventory>& inventory) {
  TRY_ASSIGN(auto spec, GenerateWslSpec(host::Root(options.driver_root_container),
                                        host::Root(DevRootHere(options)),
                                        GenerateOptions(options, kRuntimeKind)));
  const auto add = [&](const std::string& name) {
    spec.devices.push_back({name, {}, spec.devices.front().edits});
  };
  if (!inventory || inventory->devices.empty()) add("0");
  for (const auto& device : inventory ? inventory->devices : std::vector<gpu::Device>()) {
    add(std::to_string(device.index));
    if (!device.uuid.empty()) add(device.uuid);
  }
  return WriteIfChanged(SpecPath(options, kRuntimeKind), std::move(spec));
}

// The names in /proc/devices of which one is the node's driver; none where that is not known.
std::vector<std::string> DriversOf(std::string_view path) {
  constexpr std::string_view kPrefix = "/dev/nvidia";
  if (!path.starts_with(kPrefix)) return {};
  const auto rest = path.substr(kPrefix.size());
  if (rest.starts_with("-caps/")) return {"nvidia-caps"};
  if (rest.starts_with("-caps-imex-channels/")) return {"nvidia-caps-imex-channels"};
  if (rest == "-uvm" || rest == "-uvm-tools") return {"nvidia-uvm"};
  const bool is_gpu = rest == "ctl" || rest == "-modeset" || base::ParseUnsigned(rest);
  if (is_gpu) return {"nvidia", "nvidia-frontend"};
  return {};
}

// A driver that was loaded again can have another major; nodes of before open what has it now.
// Where the kernel does not list a driver, nothing is known of its nodes, and they stay.
std::vector<base::Error> TakeOutStaleNodes(const Options& options,
                                           std::vector<cdi_generate::Node>& nodes) {
  const auto majors = host::ReadCharacterMajors(options.proc);
  if (!majors) return {};
  std::vector<base::Error> stale;
  std::erase_if(nodes, [&](const cdi_generate::Node& node) {
    for (const auto& driver : DriversOf(node.path)) {
      const auto major = majors->find(driver);
      if (major == majors->end()) continue;
      if (major->second == node.major) return false;
      stale.push_back(base::Error{
          base::Code::kConflict, "StaleDeviceNode",
          fmt::format(
              "{} has the major {}, and {} has {} now: it is left out until it is made anew",
              node.path, node.major, driver, major->second)});
      return true;
    }
    return false;
  });
  return stale;
}

// Without nvidia-modeset a GPU only draws nothing, and its module is not loaded everywhere.
void AppendMissingControlNodes(const cdi_generate::DriverFiles& files,
                               std::vector<base::Error>& missing) {
  for (const std::string path : {"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"}) {
    if (files.FindNode(path) != nullptr) continue;
    missing.push_back(base::NotFound(
        "ControlNodeMissing",
        fmt::format("there is no {} that opens the driver: containers are started without it; "
                    "its module may not be loaded",
                    path)));
  }
}

}  // namespace

base::Status CreateControlNodes(const Options& options) {
  if (!options.create_control_nodes) return {};
  const std::filesystem::path root =
      options.dev_root_container.empty() ? "/" : options.dev_root_container;
  TRY_ASSIGN(const auto majors, host::ReadCharacterMajors(options.proc));
  TRY_ASSIGN(const auto wanted, host::NvidiaControlDevices(majors));
  base::Status all;
  for (const auto& device : wanted) {
    const auto made = host::EnsureCharacterDevice(root / "dev" / device.name, device.number);
    if (!made && all) all = made;
  }
  return all;
}

base::Result<std::vector<base::Error>> WriteCdiSpecs(const Options& options) {
  std::vector<base::Error> missing;
  const auto inventory = ReadInventory(options);
  if (!inventory) {
    missing.push_back(inventory.error().Within("NVML does not tell this node's GPUs"));
  }
  const host::Root driver_root(options.driver_root_container);
  switch (PlatformOf(driver_root, inventory)) {
    case host::Platform::kTegra:
      TRY(WriteTegraSpec(options, inventory));
      return missing;
    case host::Platform::kWsl:
      TRY(WriteWslSpec(options, inventory));
      return missing;
    case host::Platform::kGpus:
      break;
  }
  const host::Root dev_root(DevRootHere(options));
  cdi_generate::LocateOptions locate{
      driver_root, dev_root, inventory ? inventory->driver_version : "", "/sys", options.proc};
  locate.mps_folder = cdi_generate::MpsFolder();
  TRY_ASSIGN(auto files, cdi_generate::Locate(locate));
  auto stale = TakeOutStaleNodes(options, files.nodes);
  if (options.cdi_enabled) {
    TRY_ASSIGN(auto management,
               cdi_generate::GenerateManagement(files, GenerateOptions(options, options.cdi_kind)));
    TRY(WriteIfChanged(SpecPath(options, options.cdi_kind), std::move(management)));
  }
  std::ranges::move(stale, std::back_inserter(missing));
  if (!inventory) return missing;
  AppendMissingControlNodes(files, missing);
  auto written = WriteRuntimeSpec(options, *inventory, files);
  if (!written) {
    missing.push_back(written.error());
    return missing;
  }
  std::ranges::move(*written, std::back_inserter(missing));
  return missing;
}

}  // namespace pitcrew::node::toolkit
