#include "cdi/generate/wsl.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/strings.h"
#include "cdi/generate/edits.h"
#include "cdi/generate/locate_graphics.h"
#include "host/dxcore.h"
#include "host/glob.h"

namespace pitcrew::cdi_generate {
namespace {

constexpr std::string_view kDevice = "/dev/dxg";
constexpr std::string_view kCuda = "libcuda.so.1.1";
constexpr std::string_view kSmi = "nvidia-smi";
constexpr std::string_view kDriver[] = {
    kCuda,
    "libcuda_loader.so",
    "libnvidia-ptxjitcompiler.so.1",
    "libnvidia-ml.so.1",
    "libnvidia-ml_loader.so",
    "libnvdxgdmal.so.1",
    "nvcubins.bin",
    kSmi,
};
constexpr const char* kMore[] = {"*.so*", "*.bin", "*.dll"};

base::Result<std::string> FindStore(const host::Root& root,
                                    const std::vector<std::string>& stores) {
  for (const auto& store : stores) {
    const std::string_view folders[] = {store};
    if (LocateFirst(root, folders, kCuda)) return store;
  }
  return base::Fail(base::NotFound(
      "WslDriverNotFound",
      stores.empty() ? "Windows offers no display adapter to this system"
                     : fmt::format("none of the driver stores {} has {}: NVIDIA's driver is not "
                                   "installed on the Windows host",
                                   base::Join(stores, ", "), kCuda)));
}

// In order of the patterns, then names.
base::Status FindMore(const host::Root& root, WslFiles& files) {
  TRY_ASSIGN(const auto names, host::NamesIn(root, files.store));
  const std::string_view folders[] = {files.store};
  for (const std::string pattern : kMore) {
    for (const auto& name : names) {
      if (!host::FitsName(pattern, name)) continue;
      if (std::ranges::find(kDriver, name) != std::end(kDriver)) continue;
      auto file = LocateFirst(root, folders, name);
      if (file && std::ranges::find(files.more, *file) == files.more.end()) {
        files.more.push_back(*std::move(file));
      }
    }
  }
  return {};
}

}  // namespace

base::Result<WslFiles> LocateWsl(const LocateOptions& options,
                                 const std::vector<std::string>& stores) {
  const auto& root = options.driver_root;
  WslFiles files;
  TRY_ASSIGN(files.store, FindStore(root, stores));
  const std::string_view folders[] = {files.store};
  for (const auto name : kDriver) {
    if (auto file = LocateFirst(root, folders, name)) {
      files.driver.push_back(*std::move(file));
    } else {
      files.missing.push_back(fmt::format("{}/{}", files.store, name));
    }
  }
  TRY(FindMore(root, files));
  const std::string_view wsl_folders[] = {host::kWslLibraryFolder};
  files.dxcore = LocateFirst(root, wsl_folders, host::kDxCoreLibrary);
  if (!files.dxcore) {
    files.missing.push_back(fmt::format("{}/{}", host::kWslLibraryFolder, host::kDxCoreLibrary));
  }
  files.device = LocateNode(options.dev_root, std::string(kDevice));
  return files;
}

base::Result<cdi::Spec> GenerateWsl(const WslFiles& files, const Options& options) {
  if (!files.device) {
    return base::Fail(base::NotFound(
        "NoDeviceNodes", fmt::format("there is no device {} below {}", kDevice, options.dev_root)));
  }
  cdi::Spec spec;
  spec.kind = options.kind;
  cdi::Device all{"all", {}, {}};
  AddNode(*files.device, options, all.edits);
  spec.devices.push_back(std::move(all));

  for (const auto& file : files.driver) AddMount(file.path, file.source, options, spec.edits);
  for (const auto& file : files.more) AddMount(file.path, file.source, options, spec.edits);
  if (files.dxcore) AddMount(files.dxcore->path, files.dxcore->source, options, spec.edits);
  spec.edits.env.emplace_back("NVIDIA_VISIBLE_DEVICES=void");
  // The store keeps its place in containers, so the program has to be found another way.
  for (const auto& file : files.driver) {
    if (!file.path.ends_with(fmt::format("/{}", kSmi))) continue;
    AddLinksHook({fmt::format("{}::/usr/bin/{}", file.path, kSmi)}, options, spec.edits);
  }
  AddCacheHook(spec.edits.mounts, options, spec.edits);
  Assemble(spec, false);
  return spec;
}

}  // namespace pitcrew::cdi_generate
