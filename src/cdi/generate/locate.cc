#include "cdi/generate/locate.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fnmatch.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <set>

#include "base/elf.h"
#include "base/file.h"
#include "base/file_descriptor.h"
#include "base/log.h"
#include "base/strings.h"
#include "cdi/generate/locate_graphics.h"
#include "host/driver_root.h"
#include "host/kernel.h"
#include "host/mig_minors.h"

namespace pitcrew::cdi_generate {
namespace {

constexpr std::string_view kPrograms[] = {"nvidia-smi",
                                          "nvidia-debugdump",
                                          "nvidia-persistenced",
                                          "nvidia-cuda-mps-control",
                                          "nvidia-cuda-mps-server",
                                          "nvidia-imex",
                                          "nvidia-imex-ctl"};
constexpr std::string_view kSockets[] = {"nvidia-persistenced/socket",
                                         "nvidia-fabricmanager/socket"};

// Names in a folder of the root, sorted; none when it is missing.
base::Result<std::vector<std::string>> NamesIn(const host::Root& root, const std::string& inside) {
  const auto folder = root.Resolve(inside);
  if (!folder) return std::vector<std::string>{};
  auto names = host::ListFolder(*folder);
  if (!names && names.error().code == base::Code::kNotFound) return std::vector<std::string>{};
  return names;
}

bool Matches(const std::string& pattern, const std::string& name) {
  return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

// What stands behind ".so." of a library's real name.
std::string VersionSuffix(const std::filesystem::path& library) {
  const std::string name = library.filename().string();
  const auto at = name.find(".so.");
  return at == std::string::npos ? "" : name.substr(at + 4);
}

base::Result<std::string> FindVersion(const LocateOptions& options) {
  if (!options.version.empty()) return options.version;
  for (const auto* pattern : {"libcuda.so.*.*", "libnvidia-ml.so.*.*"}) {
    TRY_ASSIGN(const auto found, host::FindLibraries(options.driver_root, pattern));
    for (const auto& library : found) {
      if (auto version = VersionSuffix(library); !version.empty()) return version;
    }
  }
  return base::Fail(
      base::NotFound("DriverVersionUnknown",
                     fmt::format("there is no libcuda.so.<version> or libnvidia-ml.so.<version>"
                                 " below {}: no driver is installed there",
                                 options.driver_root.path().string())));
}

// Libraries of one folder whose names match, in order of their names. A link to a file of another
// name keeps its own name: that is the one that programs look for.
base::Result<std::vector<Library>> LibrariesIn(const host::Root& root, std::string_view folder,
                                               const std::string& pattern) {
  std::vector<Library> found;
  const auto real_folder = root.Resolve(folder);
  if (!real_folder) return found;
  TRY_ASSIGN(const auto inside, root.Strip(*real_folder));
  TRY_ASSIGN(const auto names, NamesIn(root, inside.string()));
  for (const auto& name : names) {
    if (!Matches(pattern, name)) continue;
    const auto real = root.Resolve((inside / name).string());
    std::error_code ignored;
    if (!real || !std::filesystem::is_regular_file(*real, ignored)) continue;
    TRY_ASSIGN(const auto source, root.Strip(*real));
    Library library;
    // A link to another version's name or from another folder is that library, not this one.
    const bool is_same = source.filename() == name;
    library.path = is_same ? source.string() : (inside / name).string();
    if (!is_same) library.source = source.string();
    found.push_back(std::move(library));
  }
  return found;
}

// SONAME, and the links of the folder; a file that is no ELF library has no SONAME.
void Describe(const host::Root& root, Library& library) {
  const std::string& path = library.path;
  const base::FileDescriptor file(::open(root.At(path).c_str(), O_RDONLY | O_CLOEXEC));
  const auto elf = base::ReadElfLibrary(file.get());
  if (elf) library.soname = elf->soname;
  const auto folder = root.At(std::filesystem::path(path).parent_path().string());
  const std::string stem = path.substr(path.rfind('/') + 1, path.find(".so") - path.rfind('/') - 1);
  const auto names = host::ListFolder(folder);
  if (!names) return;
  for (const auto& name : *names) {
    std::error_code ignored;
    if (name.starts_with(stem + ".so") && std::filesystem::is_symlink(folder / name, ignored)) {
      library.links.push_back(name);
    }
  }
}

base::Result<std::vector<std::string>> FindLibraryFolders(const host::Root& root,
                                                          const std::string& version) {
  std::vector<std::string> folders;
  for (const auto folder : host::LibraryFolders()) {
    TRY_ASSIGN(const auto libraries, LibrariesIn(root, folder, "lib*.so." + version));
    for (const auto& library : libraries) {
      std::string inside = library.path.substr(0, library.path.rfind('/'));
      if (inside.empty()) inside = "/";
      if (std::ranges::find(folders, inside) == folders.end()) folders.push_back(std::move(inside));
    }
  }
  if (!folders.empty()) return folders;
  return base::Fail(base::NotFound(
      "DriverLibrariesNotFound",
      fmt::format("there is no lib*.so.{} below {}", version, root.path().string())));
}

base::Result<std::vector<Library>> FindDriverLibraries(const LocateOptions& options,
                                                       DriverFiles& files) {
  const auto& root = options.driver_root;
  TRY_ASSIGN(files.library_folders, FindLibraryFolders(root, files.version));
  std::vector<Library> found;
  const auto append = [&](const std::string& folder, const std::string& pattern) -> base::Status {
    TRY_ASSIGN(auto libraries, LibrariesIn(root, folder, pattern));
    for (auto& library : libraries) {
      const bool known = std::ranges::find(found, library.path, &Library::path) != found.end();
      if (known) continue;
      Describe(root, library);
      found.push_back(std::move(library));
    }
    return {};
  };
  for (const auto& folder : files.library_folders) {
    TRY(append(folder, "*.so." + files.version));
    TRY(append(folder + "/vdpau", "*.so." + files.version));
  }
  for (const auto folder : host::LibraryFolders()) {
    TRY(append(std::string(folder), "libnvidia-nvvm70.so.*"));
  }
  return found;
}

std::vector<std::string> FindFirmware(const LocateOptions& options, const std::string& version) {
  std::vector<std::string> folders;
  const auto extra = base::ReadFile(options.sys / "module/firmware_class/parameters/path");
  if (extra && !base::Trim(*extra).empty()) folders.emplace_back(base::Trim(*extra));
  const auto release = host::ReadKernelRelease(options.proc);
  for (const std::string base_folder : {"/lib/firmware/updates", "/lib/firmware"}) {
    if (release) folders.push_back(base_folder + "/" + *release);
    folders.push_back(base_folder);
  }
  std::vector<std::string> found;
  for (const auto& folder : folders) {
    const std::string searched = folder + "/nvidia/" + version;
    const auto names = NamesIn(options.driver_root, searched);
    if (!names) continue;
    for (const auto& name : *names) {
      if (Matches("gsp*.bin", name)) found.push_back(searched + "/" + name);
    }
  }
  return found;
}

std::vector<std::string> FindSockets(const host::Root& root) {
  std::vector<std::string> found;
  for (const auto name : kSockets) {
    for (const auto* folder : {"/run/", "/var/run/"}) {
      const std::string path = folder + std::string(name);
      const auto real = root.Resolve(path);
      if (!real || std::filesystem::is_directory(*real)) continue;
      found.push_back(path);
      break;
    }
  }
  return found;
}

base::Status AppendNodes(const host::Root& dev_root, const std::string& folder,
                         std::vector<Node>& nodes) {
  TRY_ASSIGN(const auto names, NamesIn(dev_root, folder));
  for (const auto& name : names) {
    const std::string path = folder + "/" + name;
    struct stat info{};
    if (::lstat(dev_root.At(path).c_str(), &info) != 0 || !S_ISCHR(info.st_mode)) continue;
    nodes.push_back({path, ::gnu_dev_major(info.st_rdev), ::gnu_dev_minor(info.st_rdev),
                     info.st_mode & 07777, info.st_gid});
  }
  return {};
}

std::vector<Link> FindByPathLinks(const host::Root& dev_root) {
  std::vector<Link> links;
  const std::string folder = "/dev/dri/by-path";
  const auto names = NamesIn(dev_root, folder);
  if (!names) return links;
  for (const auto& name : *names) {
    const auto target = host::ReadLink(dev_root.At(folder + "/" + name));
    if (target) links.push_back({folder + "/" + name, *target});
  }
  return links;
}

std::map<std::string, std::vector<std::string>> FindDriNames(const std::filesystem::path& sys) {
  std::map<std::string, std::vector<std::string>> found;
  const auto devices = sys / "bus/pci/devices";
  const auto addresses = host::ListFolder(devices);
  if (!addresses) return found;
  for (const auto& address : *addresses) {
    if (const auto names = host::ListFolder(devices / address / "drm"); names && !names->empty()) {
      found[address] = *names;
    }
  }
  return found;
}

}  // namespace

const Node* DriverFiles::FindNode(const std::string& path) const {
  const auto found = std::ranges::find(nodes, path, &Node::path);
  return found == nodes.end() ? nullptr : &*found;
}

std::map<std::string, std::uint32_t> ParseMigMinors(std::string_view text) {
  std::map<std::string, std::uint32_t> minors;
  const auto is_key = [](const std::string& key) {
    if (key == "config" || key == "monitor") return true;
    const auto parts = base::Split(key, '/');
    static constexpr std::string_view kPrefixes[] = {"gpu", "gi", "ci"};
    if (parts.size() < 3 || parts.size() > 4 || parts.back() != "access") return false;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      if (!parts[i].starts_with(kPrefixes[i])) return false;
      if (!base::ParseUnsigned(std::string_view(parts[i]).substr(kPrefixes[i].size())))
        return false;
    }
    return true;
  };
  for (const auto& line : base::Split(text, '\n')) {
    const auto words = base::Split(line, ' ');
    if (words.size() != 2 || !is_key(words[0])) continue;
    const auto minor = base::ParseUnsigned(words[1]);
    if (minor && *minor <= UINT32_MAX) minors[words[0]] = static_cast<std::uint32_t>(*minor);
  }
  return minors;
}

base::Result<std::vector<Node>> LocateNodes(const host::Root& dev_root) {
  std::vector<Node> nodes;
  for (const auto* folder :
       {"/dev", "/dev/dri", "/dev/nvidia-caps", "/dev/nvidia-caps-imex-channels"}) {
    std::vector<Node> found;
    TRY(AppendNodes(dev_root, folder, found));
    for (auto& node : found) {
      const std::string_view name = std::string_view(node.path).substr(node.path.rfind('/') + 1);
      const bool wanted = std::string_view(folder) != "/dev" || name.starts_with("nvidia");
      if (wanted) nodes.push_back(std::move(node));
    }
  }
  std::ranges::sort(nodes, {}, &Node::path);
  return nodes;
}

base::Result<DriverFiles> Locate(const LocateOptions& options) {
  DriverFiles files;
  TRY_ASSIGN(files.version, FindVersion(options));
  TRY_ASSIGN(files.libraries, FindDriverLibraries(options, files));
  LocateGraphics(options.driver_root, files);
  files.sockets = FindSockets(options.driver_root);
  files.firmware = FindFirmware(options, files.version);
  for (const auto name : kPrograms) {
    if (auto program = LocateFirst(options.driver_root, host::StandardProgramFolders(), name)) {
      files.programs.push_back(*std::move(program));
    }
  }
  TRY_ASSIGN(files.nodes, LocateNodes(options.dev_root));
  files.by_path_links = FindByPathLinks(options.dev_root);
  files.dri_names = FindDriNames(options.sys);
  const auto minors = host::ReadMigMinorsText({options.proc, options.driver_root.At("/proc")});
  if (minors) files.mig_minors = ParseMigMinors(*minors);
  if (!minors && minors.error().code != base::Code::kNotFound) return base::Fail(minors.error());
  return files;
}

}  // namespace pitcrew::cdi_generate
