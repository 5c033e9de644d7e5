#include "cdi/generate/locate.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/file.h"
#include "base/strings.h"
#include "cdi/generate/locate_graphics.h"
#include "cdi/generate/locate_libraries.h"
#include "host/driver_root.h"
#include "host/glob.h"
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
    const auto names = host::NamesIn(options.driver_root, searched);
    if (!names) continue;
    for (const auto& name : *names) {
      if (host::FitsName("gsp*.bin", name)) found.push_back(searched + "/" + name);
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

// The folder lies where everybody may make one, and containers may write to what is mounted: a
// link, or the folder of somebody else, is none.
std::string FindMpsFolder(const host::Root& root, const std::string& path) {
  if (!path.starts_with('/')) return "";
  const auto parent = root.Resolve(FolderOf(path).empty() ? "/" : FolderOf(path));
  struct stat info{};
  if (!parent || ::lstat((*parent / path.substr(path.rfind('/') + 1)).c_str(), &info) != 0) {
    return "";
  }
  const bool trusted = info.st_uid == 0 || info.st_uid == ::geteuid();
  return S_ISDIR(info.st_mode) && trusted ? path : "";
}

base::Status AppendNodes(const host::Root& dev_root, const std::string& folder,
                         std::vector<Node>& nodes) {
  TRY_ASSIGN(const auto names, host::NamesIn(dev_root, folder));
  for (const auto& name : names) {
    if (auto node = LocateNode(dev_root, folder + "/" + name)) nodes.push_back(*std::move(node));
  }
  return {};
}

std::vector<Link> FindByPathLinks(const host::Root& dev_root) {
  std::vector<Link> links;
  const std::string folder = "/dev/dri/by-path";
  const auto names = host::NamesIn(dev_root, folder);
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

std::string MpsFolder() {
  const char* chosen = std::getenv("CUDA_MPS_PIPE_DIRECTORY");
  return chosen != nullptr && *chosen != '\0' ? chosen : "/tmp/nvidia-mps";
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

std::optional<Node> LocateNode(const host::Root& dev_root, const std::string& path) {
  struct stat info{};
  if (::lstat(dev_root.At(path).c_str(), &info) != 0 || !S_ISCHR(info.st_mode)) return std::nullopt;
  return Node{path, ::gnu_dev_major(info.st_rdev), ::gnu_dev_minor(info.st_rdev),
              info.st_mode & 07777, info.st_gid};
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

base::Status LocateDevices(const LocateOptions& options, DriverFiles& files) {
  TRY_ASSIGN(files.nodes, LocateNodes(options.dev_root));
  files.by_path_links = FindByPathLinks(options.dev_root);
  files.dri_names = FindDriNames(options.sys);
  const auto minors = host::ReadMigMinorsText({options.proc, options.driver_root.At("/proc")});
  if (minors) files.mig_minors = ParseMigMinors(*minors);
  if (!minors && minors.error().code != base::Code::kNotFound) return base::Fail(minors.error());
  return {};
}

base::Result<DriverFiles> Locate(const LocateOptions& options) {
  DriverFiles files;
  host::LibrarySearch search(options.driver_root, options.library_folders);
  TRY_ASSIGN(files.version, FindVersion(options, search));
  TRY_ASSIGN(files.libraries, FindDriverLibraries(options, search, files));
  LocateGraphics(options, search, files);
  files.sockets = FindSockets(options.driver_root);
  files.mps_folder = FindMpsFolder(options.driver_root, options.mps_folder);
  files.firmware = FindFirmware(options, files.version);
  const auto folders = ProgramFolders(options);
  for (const auto name : kPrograms) {
    if (auto program = LocateFirst(options.driver_root, folders, name)) {
      files.programs.push_back(*std::move(program));
    }
  }
  TRY(LocateDevices(options, files));
  return files;
}

}  // namespace pitcrew::cdi_generate
