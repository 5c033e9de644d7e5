#include "cdi/generate/tegra.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cdi/generate/device_ids.h"
#include "cdi/generate/edits.h"
#include "cdi/generate/gpu_edits.h"
#include "host/platform.h"

namespace pitcrew::cdi_generate {
namespace {

// Upstream's rule of thumb for a system with both: the integrated GPU is NVML's first and has its
// display at nvidia2, the discrete one is the second.
constexpr unsigned kIntegratedIndex = 0;
constexpr unsigned kDiscreteIndex = 1;
constexpr std::string_view kDiscreteNode = "/dev/nvidia1";
constexpr std::string_view kDisplayNode = "/dev/nvidia2";

// Everything that goes into each of the devices.
struct Facts {
  const TegraFiles& tegra;
  const DriverFiles& files;
  const Options& options;

  void AddRelease(cdi::ContainerEdits& edits) const {
    if (tegra.has_release_file) AddMount(std::string(host::kTegraRelease), "", options, edits);
  }
};

bool IsGpuNode(const std::string& path) {
  constexpr std::string_view kPrefix = "/dev/nvidia";
  return path.starts_with(kPrefix) && path.size() > kPrefix.size() &&
         path.find_first_not_of("0123456789", kPrefix.size()) == std::string::npos;
}

cdi::ContainerEdits WholeSystem(const Facts& facts) {
  cdi::ContainerEdits edits;
  for (const auto& node : facts.tegra.nodes) AddNode(node, facts.options, edits);
  facts.AddRelease(edits);
  return edits;
}

cdi::ContainerEdits Integrated(const Facts& facts) {
  cdi::ContainerEdits edits;
  for (const auto& node : facts.tegra.nodes) {
    if (node.path != kDiscreteNode) AddNode(node, facts.options, edits);
  }
  if (const auto* display = facts.files.FindNode(std::string(kDisplayNode))) {
    AddNode(*display, facts.options, edits);
  }
  facts.AddRelease(edits);
  return edits;
}

base::Result<cdi::ContainerEdits> Discrete(const gpu::Device& device, const Facts& facts) {
  TRY_ASSIGN(auto edits, EditsOf(device, nullptr, facts.files, facts.options));
  AddControlNodes(facts.files, facts.options, edits);
  for (const auto& node : facts.tegra.nodes) {
    if (!IsGpuNode(node.path) && !IsControlNode(node.path)) AddNode(node, facts.options, edits);
  }
  facts.AddRelease(edits);
  return edits;
}

// NVML has no PCI address for Orin's GPU, and always the same one for Thor's.
base::Result<bool> IsIntegrated(const gpu::Device& device) {
  if (!device.fault) return device.pci.domain == 0 && device.pci.bus == 1 && device.pci.device == 0;
  if (device.fault->reason != "NotSupported") return base::Fail(*device.fault);
  return host::IsIntegratedGpuName(device.name);
}

base::Error NotAtItsPlace(const gpu::Device& device, std::string_view kind, unsigned index) {
  return {base::Code::kUnsupported, "UnknownTegraSystem",
          fmt::format("GPU {} ({}) is {}, which is known only as GPU {}", device.index, device.name,
                      kind, index)};
}

base::Result<cdi::ContainerEdits> EditsOnTegra(const gpu::Device& device, const Facts& facts) {
  TRY_ASSIGN(const bool integrated, IsIntegrated(device));
  const unsigned place = integrated ? kIntegratedIndex : kDiscreteIndex;
  if (device.index != place) {
    return base::Fail(
        NotAtItsPlace(device, integrated ? "an integrated GPU" : "a discrete GPU", place));
  }
  if (integrated) return Integrated(facts);
  if (device.fault) return base::Fail(*device.fault);
  return Discrete(device, facts);
}

void AddNamed(const gpu::Device& device, const cdi::Annotations& annotations,
              const cdi::ContainerEdits& edits, const Options& options,
              std::vector<cdi::Device>& devices) {
  for (const auto naming : options.naming) {
    auto name = NameFor(device, nullptr, naming);
    if (!name.empty()) devices.push_back({std::move(name), annotations, edits});
  }
}

base::Result<std::vector<ChosenDevice>> Chosen(const gpu::Inventory& inventory,
                                               const std::vector<std::string>& ids) {
  if (std::ranges::find(ids, "all") == ids.end()) return ChooseDevices(inventory, ids);
  std::vector<ChosenDevice> all;
  for (const auto& device : inventory.devices) all.push_back({&device, nullptr});
  return all;
}

base::Result<std::vector<cdi::Device>> EachGpu(const gpu::Inventory& inventory,
                                               const Facts& facts) {
  TRY_ASSIGN(const auto chosen, Chosen(inventory, facts.options.ids));
  std::vector<cdi::Device> devices;
  for (const auto& one : chosen) {
    if (one.mig != nullptr) {
      return base::Fail({base::Code::kUnsupported, "MigNotSupported",
                         fmt::format("{} is a MIG device: mode csv has none", one.mig->uuid)});
    }
    TRY_ASSIGN(const auto edits, EditsOnTegra(*one.gpu, facts));
    // Of an integrated GPU, NVML tells nothing of the kind.
    const auto annotations = *IsIntegrated(*one.gpu)
                                 ? cdi::Annotations()
                                 : AnnotationsOf(*one.gpu, nullptr, facts.options);
    AddNamed(*one.gpu, annotations, edits, facts.options, devices);
  }
  return devices;
}

base::Result<std::vector<cdi::Device>> OneDevice(const Facts& facts) {
  for (const auto& id : facts.options.ids) {
    if (id == "all" || id == "0") continue;
    return base::Fail(base::Invalid(
        "BadDeviceId",
        fmt::format("\"{}\" names no device: this system has one, whose id is 0", id)));
  }
  std::vector<cdi::Device> devices;
  AddNamed(gpu::Device(), {}, WholeSystem(facts), facts.options, devices);
  if (devices.empty()) {
    return base::Fail(base::Invalid(
        "BadUsage", "the device of this system has no UUID: name it by index or type-index"));
  }
  return devices;
}

void AddCudaCompat(const gpu::Inventory& inventory, const TegraOptions& tegra_options,
                   const Options& options, cdi::ContainerEdits& edits) {
  if (inventory.cuda_version == 0) return;
  std::vector<std::string> arguments = {
      fmt::format("--host-cuda-version={}.{}", inventory.CudaMajor(), inventory.CudaMinor())};
  const bool has_orin = std::ranges::any_of(inventory.devices, [](const gpu::Device& device) {
    return device.name.find("Orin (nvgpu)") != std::string::npos;
  });
  if (has_orin) {
    arguments.push_back("--cuda-compat-container-root=" + tegra_options.orin_compat_root);
  }
  AddHook("enable-cuda-compat", arguments, options, edits);
}

void AddCommon(const Facts& facts, const gpu::Inventory* inventory,
               const TegraOptions& tegra_options, cdi::ContainerEdits& edits) {
  const auto& tegra = facts.tegra;
  for (const auto& folder : tegra.folders)
    AddMount(folder.path, folder.source, facts.options, edits);
  for (const auto& library : tegra.libraries) AddMount(library.path, "", facts.options, edits);
  for (const auto& file : tegra.link_targets) AddMount(file.path, "", facts.options, edits);
  facts.AddRelease(edits);
  edits.env.emplace_back("NVIDIA_VISIBLE_DEVICES=void");
  AddLinksHook(LibraryLinks(tegra.libraries), facts.options, edits);
  AddLinksHook(tegra.links, facts.options, edits);
  if (inventory != nullptr) AddCudaCompat(*inventory, tegra_options, facts.options, edits);
  AddCacheHook(edits.mounts, facts.options, edits);
}

base::Status RefuseEmptyDevices(const std::vector<cdi::Device>& devices) {
  for (const auto& device : devices) {
    if (!device.edits.device_nodes.empty() || !device.edits.mounts.empty()) continue;
    return base::Fail(base::NotFound(
        "NoDeviceNodes", fmt::format("device {} would be empty: none of the device nodes that the "
                                     "lists of this Tegra system name exists",
                                     device.name)));
  }
  return {};
}

}  // namespace

base::Result<GeneratedTegra> GenerateTegra(const gpu::Inventory* inventory, const TegraFiles& tegra,
                                           const DriverFiles& files, const Options& options,
                                           const TegraOptions& tegra_options) {
  const Facts facts{tegra, files, options};
  GeneratedTegra out;
  out.spec.kind = options.kind;
  if (!tegra_options.one_device && inventory != nullptr && inventory->devices.size() > 1) {
    auto each = EachGpu(*inventory, facts);
    if (each) {
      out.spec.devices = *std::move(each);
    } else {
      out.undivided = each.error();
    }
  }
  if (out.spec.devices.empty()) {
    auto one = OneDevice(facts);
    // What was asked for is not that one: why it is not among several says more.
    if (!one) return base::Fail(out.undivided.value_or(one.error()));
    out.spec.devices = *std::move(one);
  }
  TRY(RefuseEmptyDevices(out.spec.devices));
  AddCommon(facts, inventory, tegra_options, out.spec.edits);
  Assemble(out.spec, options.merged_device);
  return out;
}

}  // namespace pitcrew::cdi_generate
