#include "cdi/generate/locate_graphics.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "host/driver_root.h"

namespace pitcrew::cdi_generate {
namespace {

constexpr std::string_view kConfigFolders[] = {"/etc", "/usr/local/share", "/usr/share"};

struct Config {
  std::string_view name;
  std::string_view container_folder;
};
constexpr Config kConfigs[] = {
    {"glvnd/egl_vendor.d/10_nvidia.json", "/usr/share"},
    {"egl/egl_external_platform.d/15_nvidia_gbm.json", "/usr/share"},
    {"egl/egl_external_platform.d/10_nvidia_wayland.json", "/usr/share"},
    {"egl/egl_external_platform.d/09_nvidia_wayland2.json", "/usr/share"},
    {"egl/egl_external_platform.d/20_nvidia_xcb.json", "/usr/share"},
    {"egl/egl_external_platform.d/20_nvidia_xlib.json", "/usr/share"},
    {"nvidia/nvoptix.bin", "/usr/share"},
    {"X11/xorg.conf.d/10-nvidia.conf", "/usr/share"},
    {"X11/xorg.conf.d/nvidia-drm-outputclass.conf", "/usr/share"},
    {"OpenCL/vendors/nvidia.icd", "/etc"},
    {"vulkan/icd.d/nvidia_icd.json", "/etc"},
    {"vulkan/icd.d/nvidia_layers.json", "/etc"},
    {"vulkan/implicit_layer.d/nvidia_layers.json", "/etc"},
#if defined(__aarch64__)
    {"vulkan/icd.d/nvidia_icd.aarch64.json", "/etc"},
#else
    {"vulkan/icd.d/nvidia_icd.x86_64.json", "/etc"},
#endif
};

std::vector<std::string> XorgFolders(const std::vector<std::string>& library_folders) {
  std::vector<std::string> folders;
  for (const auto& folder : library_folders) {
    folders.push_back(folder + "/nvidia/xorg");
    for (const std::string& xorg :
         {folder + "/xorg", std::string("/usr/lib/xorg"), std::string("/usr/lib64/xorg"),
          std::string("/usr/X11R6/lib"), std::string("/usr/X11R6/lib64")}) {
      for (const auto* below : {"/modules/drivers", "/modules/extensions",
                                "/modules/updates/drivers", "/modules/updates/extensions"}) {
        folders.push_back(xorg + below);
      }
    }
  }
  return folders;
}

void AddLibraries(host::LibrarySearch& search, const std::string& pattern, DriverFiles& files) {
  const auto found = search.Find(pattern);
  if (!found) return;
  for (const auto& library : *found) {
    if (const auto inside = search.root().Strip(library))
      files.graphics.push_back({inside->string(), ""});
  }
}

// Links that the driver's installer makes and containers need (container-toolkit.md 6.7).
void AddLinks(host::LibrarySearch& search, DriverFiles& files) {
  const auto allocator = search.Find("libnvidia-allocator.so." + files.version);
  if (allocator && !allocator->empty()) {
    if (const auto inside = search.root().Strip(allocator->front())) {
      files.graphics_links.push_back(fmt::format(
          "../libnvidia-allocator.so.1::{}/gbm/nvidia-drm_gbm.so", FolderOf(inside->string())));
    }
  }
  for (const auto& file : files.graphics) {
    for (const auto* stem : {"libnvidia-vulkan-producer.so", "libglxserver_nvidia.so"}) {
      const std::string name = fmt::format("{}.{}", stem, files.version);
      if (file.path.ends_with("/" + name)) {
        files.graphics_links.push_back(fmt::format("{}::{}/{}", name, FolderOf(file.path), stem));
      }
    }
  }
}

}  // namespace

std::vector<std::string_view> ProgramFolders(const LocateOptions& options) {
  if (!options.program_folders.empty()) {
    return {options.program_folders.begin(), options.program_folders.end()};
  }
  return {host::StandardProgramFolders().begin(), host::StandardProgramFolders().end()};
}

std::optional<File> LocateFirst(const host::Root& root, std::span<const std::string_view> folders,
                                std::string_view name) {
  for (const auto folder : folders) {
    const std::string path = fmt::format("{}/{}", folder, name);
    const auto real = root.Resolve(path);
    std::error_code ignored;
    if (!real || !std::filesystem::is_regular_file(*real, ignored)) continue;
    File file{path, ""};
    // Of the machine's own root a link can be the source, as upstream names it; one below another
    // root may be absolute, and would lead out of it.
    if (root.path() == "/") return file;
    const auto inside = root.Strip(*real);
    if (inside && inside->string() != path) file.source = inside->string();
    return file;
  }
  return std::nullopt;
}

void LocateGraphics(const LocateOptions& options, host::LibrarySearch& search, DriverFiles& files) {
  const auto& root = options.driver_root;
  for (const auto* pattern :
       {"libnvidia-egl-gbm.so.*.*", "libnvidia-egl-wayland.so.*.*", "libnvidia-egl-wayland2.so.*.*",
        "libnvidia-egl-xcb.so.*.*", "libnvidia-egl-xlib.so.*.*"}) {
    AddLibraries(search, pattern, files);
  }
  AddLibraries(search, "libnvidia-vulkan-producer.so." + files.version, files);
  const auto xorg = XorgFolders(files.library_folders);
  const std::vector<std::string_view> xorg_views(xorg.begin(), xorg.end());
  for (const std::string& name :
       {std::string("nvidia_drv.so"), "libglxserver_nvidia.so." + files.version}) {
    if (auto file = LocateFirst(root, xorg_views, name)) files.graphics.push_back(*std::move(file));
  }
  if (auto file = LocateFirst(root, ProgramFolders(options), "nvidia-xconfig")) {
    files.graphics.push_back(*std::move(file));
  }
  std::vector<std::string_view> config_folders(options.config_folders.begin(),
                                               options.config_folders.end());
  if (config_folders.empty()) {
    config_folders.assign(std::begin(kConfigFolders), std::end(kConfigFolders));
  }
  for (const auto& config : kConfigs) {
    auto file = LocateFirst(root, config_folders, config.name);
    if (!file && config.name.starts_with("vulkan/")) {
      const std::string_view kRootFolder[] = {""};
      file = LocateFirst(root, kRootFolder, config.name);
    }
    if (!file) continue;
    const std::string source = file->source.empty() ? file->path : file->source;
    const std::string path = fmt::format("{}/{}", config.container_folder, config.name);
    files.graphics.push_back({path, source == path ? "" : source});
  }
  AddLinks(search, files);
}

}  // namespace pitcrew::cdi_generate
