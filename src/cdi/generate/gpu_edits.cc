#include "cdi/generate/gpu_edits.h"

#include <fmt/format.h>

#include <algorithm>

#include "cdi/generate/coherence.h"
#include "cdi/generate/edits.h"

namespace pitcrew::cdi_generate {
namespace {

constexpr std::string_view kControlNodes[] = {"/dev/nvidia-modeset", "/dev/nvidia-uvm-tools",
                                              "/dev/nvidia-uvm", "/dev/nvidiactl"};

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

}  // namespace

std::string NameFor(const gpu::Device& gpu, const gpu::MigDevice* mig, Naming naming) {
  switch (naming) {
    case Naming::kIndex:
      return mig ? fmt::format("{}:{}", gpu.index, mig->index) : fmt::format("{}", gpu.index);
    case Naming::kTypeIndex:
      return mig ? fmt::format("mig{}:{}", gpu.index, mig->index) : fmt::format("gpu{}", gpu.index);
    case Naming::kUuid:
      return mig ? mig->uuid : gpu.uuid;
  }
  return {};
}

cdi::Annotations AnnotationsOf(const gpu::Device& gpu, const gpu::MigDevice* mig,
                               const Options& options) {
  if (!options.coherent_annotations || mig != nullptr) return {};
  const auto coherent = CoherentAnnotation(gpu);
  if (!coherent) return {};
  return {{std::string(kCoherentAnnotation), *coherent}};
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

bool IsControlNode(std::string_view path) {
  return std::ranges::find(kControlNodes, path) != std::end(kControlNodes);
}

void AddControlNodes(const DriverFiles& files, const Options& options, cdi::ContainerEdits& edits) {
  for (const auto path : kControlNodes) {
    if (const Node* node = files.FindNode(std::string(path))) AddNode(*node, options, edits);
  }
}

}  // namespace pitcrew::cdi_generate
