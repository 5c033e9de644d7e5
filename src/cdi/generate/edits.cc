#include "cdi/generate/edits.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>

#include "base/strings.h"

namespace pitcrew::cdi_generate {
namespace {

const std::vector<std::string> kMountOptions = {"ro", "nosuid", "nodev", "rbind", "rprivate"};
const std::vector<std::string> kSocketOptions = {"nosuid", "nodev", "rbind", "rprivate", "noexec"};

std::string OnHost(const std::string& root, const std::string& path) {
  return root.empty() || root == "/"
             ? path
             : (root.ends_with('/') ? root.substr(0, root.size() - 1) : root) + path;
}

void AddMountWith(const std::vector<std::string>& mount_options, const std::string& path,
                  const std::string& source, const Options& options, cdi::ContainerEdits& edits) {
  edits.mounts.push_back(
      {OnHost(options.driver_root, source.empty() ? path : source), path, mount_options, ""});
}

std::string NameOf(const std::string& path) { return path.substr(path.rfind('/') + 1); }

void AddOnce(std::vector<std::string>& list, std::string item) {
  if (std::ranges::find(list, item) == list.end()) list.push_back(std::move(item));
}

// `lib?*.so` or `lib?*.so.*` (container-toolkit.md 6.7).
bool IsLibraryName(const std::string& name) {
  const auto so = name.rfind(".so");
  if (!name.starts_with("lib") || so == std::string::npos || so <= 3) return false;
  const auto rest = name.substr(so + 3);
  return rest.empty() || rest.front() == '.';
}

// Up to the last ".so" and with it: libcuda.so.999.88 gives libcuda.so; empty when there is none.
std::string PlainName(const std::string& name) {
  const auto so = name.rfind(".so.");
  return so == std::string::npos ? "" : name.substr(0, so + 3);
}

bool Matches(const char* pattern, const std::string& name) {
  return ::fnmatch(pattern, name.c_str(), 0) == 0;
}

std::vector<std::string> LibraryFolders(const std::vector<cdi::Mount>& mounts) {
  std::vector<std::string> folders;
  for (const auto& mount : mounts) {
    if (IsLibraryName(NameOf(mount.container_path)))
      AddOnce(folders, FolderOf(mount.container_path));
  }
  return folders;
}

}  // namespace

void AddNode(const Node& node, const Options& options, cdi::ContainerEdits& edits) {
  cdi::DeviceNode out;
  out.path = node.path;
  if (const auto host_path = OnHost(options.dev_root, node.path); host_path != node.path) {
    out.host_path = host_path;
  }
  out.major = node.major;
  out.minor = node.minor;
  if (node.file_mode != 0) out.file_mode = node.file_mode;
  out.permissions = "rwm";
  if (node.gid != 0) out.gid = node.gid;
  edits.device_nodes.push_back(std::move(out));
  if (options.additional_gids) AddGroup(node, edits);
}

void AddGroup(const Node& node, cdi::ContainerEdits& edits) {
  const bool open_to_all = (node.file_mode & 06) == 06;
  if (node.gid != 0 && node.file_mode != 0 && !open_to_all) {
    edits.additional_gids.push_back(node.gid);
  }
}

bool IsHookEnabled(std::string_view name, const Options& options) {
  const auto names = [&](const std::vector<std::string>& hooks, std::string_view hook) {
    return std::ranges::find(hooks, hook) != hooks.end();
  };
  if (names(options.enabled_hooks, name)) return true;
  if (name == "chmod") return false;
  return !names(options.disabled_hooks, name) && !names(options.disabled_hooks, "all");
}

void AddHook(std::string_view name, const std::vector<std::string>& arguments,
             const Options& options, cdi::ContainerEdits& edits) {
  if (!IsHookEnabled(name, options)) return;
  const std::string program = NameOf(options.hook_path);
  cdi::Hook hook{"createContainer", options.hook_path, {program}, {"NVIDIA_CTK_DEBUG=false"}, {}};
  if (program == "nvidia-ctk") hook.args.emplace_back("hook");
  hook.args.emplace_back(name);
  hook.args.insert(hook.args.end(), arguments.begin(), arguments.end());
  edits.hooks.push_back(std::move(hook));
}

void AddMount(const std::string& path, const std::string& source, const Options& options,
              cdi::ContainerEdits& edits) {
  AddMountWith(kMountOptions, path, source, options, edits);
}

void AddLinksHook(const std::vector<std::string>& links, const Options& options,
                  cdi::ContainerEdits& edits) {
  std::vector<std::string> arguments;
  for (const auto& link : links) arguments.insert(arguments.end(), {"--link", link});
  if (!arguments.empty()) AddHook("create-symlinks", arguments, options, edits);
}

void AddCacheHook(const std::vector<cdi::Mount>& mounts, const Options& options,
                  cdi::ContainerEdits& edits) {
  std::vector<std::string> arguments;
  if (!options.ldconfig_path.empty()) arguments = {"--ldconfig-path", options.ldconfig_path};
  const auto folders = LibraryFolders(mounts);
  for (const auto& folder : folders) arguments.insert(arguments.end(), {"--folder", folder});
  if (!folders.empty()) AddHook("update-ldcache", arguments, options, edits);
}

void AddFolderModes(const std::vector<std::string>& folders, const Options& options,
                    cdi::ContainerEdits& edits) {
  std::vector<std::string> arguments = {"--mode", "755"};
  for (const auto& folder : folders) {
    const auto lies_there = [&](const cdi::DeviceNode& node) {
      return node.path.starts_with(folder + "/");
    };
    if (std::ranges::none_of(edits.device_nodes, lies_there)) continue;
    arguments.insert(arguments.end(), {"--path", folder});
  }
  if (arguments.size() > 2) AddHook("chmod", arguments, options, edits);
}

std::vector<std::string> LibraryLinks(const std::vector<Library>& libraries) {
  std::vector<std::string> links;
  for (const auto& library : libraries) {
    const std::string name = NameOf(library.path);
    const std::string folder = FolderOf(library.path);
    if (Matches("libcuda.so.*.*", name)) AddOnce(links, "libcuda.so.1::" + folder + "/libcuda.so");
    if (Matches("libGLX_nvidia.so.*.*", name)) {
      AddOnce(links, name + "::" + folder + "/libGLX_indirect.so.0");
    }
    if (Matches("libnvidia-opticalflow.so.*.*", name)) {
      AddOnce(links, "libnvidia-opticalflow.so.1::" + folder + "/libnvidia-opticalflow.so");
    }
    if (!Matches("*.*.*", name)) continue;
    const auto installed = [&](const std::string& link) {
      return !link.empty() && std::ranges::find(library.links, link) != library.links.end();
    };
    const std::string soname = library.soname.empty() ? name : library.soname;
    if (soname != name && installed(soname)) AddOnce(links, name + "::" + folder + "/" + soname);
    if (const auto plain = PlainName(name); installed(plain) && plain != soname) {
      AddOnce(links, soname + "::" + folder + "/" + plain);
    }
  }
  return links;
}

void AddDriver(const DriverFiles& files, const Options& options, bool graphics,
               cdi::ContainerEdits& edits) {
  if (graphics) {
    for (const auto& file : files.graphics) AddMount(file.path, file.source, options, edits);
  }
  // Modules of an X server are no libraries that programs load, so the graphics stay out.
  cdi::ContainerEdits libraries;
  for (const auto& library : files.libraries) {
    AddMount(library.path, library.source, options, libraries);
  }
  edits.mounts.insert(edits.mounts.end(), libraries.mounts.begin(), libraries.mounts.end());
  for (const auto& socket : files.sockets) AddMountWith(kSocketOptions, socket, "", options, edits);
  // For programs that compute, which pods of the driver's own management are not.
  if (graphics && !files.mps_folder.empty()) {
    AddMountWith(kSocketOptions, files.mps_folder, "", options, edits);
  }
  for (const auto& file : files.firmware) AddMount(file, "", options, edits);
  for (const auto& program : files.programs) AddMount(program.path, program.source, options, edits);
  edits.env.push_back("NVIDIA_CTK_LIBCUDA_DIR=" + base::Join(files.library_folders, ":"));
  edits.env.emplace_back(kNothingVisible);

  if (graphics) AddLinksHook(files.graphics_links, options, edits);
  AddLinksHook(LibraryLinks(files.libraries), options, edits);
  AddHook("enable-cuda-compat", {"--host-driver-version=" + files.version}, options, edits);
  AddCacheHook(libraries.mounts, options, edits);
}

}  // namespace pitcrew::cdi_generate
