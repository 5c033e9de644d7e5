#include "host/driver_root.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/machine.h"

namespace pitcrew::host {
namespace {

constexpr std::array<std::string_view, 5> kProgramFolders = {"/", "/usr/bin", "/usr/sbin", "/bin",
                                                             "/sbin"};
constexpr std::array<std::string_view, 6> kStandardProgramFolders = {
    "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"};
constexpr std::array<std::string_view, 6> kHostSmiPaths = {
    "/usr/bin/nvidia-smi", "/usr/sbin/nvidia-smi",        "/bin/nvidia-smi",
    "/sbin/nvidia-smi",    "/usr/lib/wsl/lib/nvidia-smi", "/opt/bin/nvidia-smi",
};

std::string Join(std::string_view folder, std::string_view name) {
  return folder == "/" ? fmt::format("/{}", name) : fmt::format("{}/{}", folder, name);
}

std::vector<std::string> MakeLibraryFolders() {
  std::vector<std::string> folders = {"/"};
  for (const std::string_view lib : {"/usr/lib", "/lib"}) {
    folders.push_back(fmt::format("{}64", lib));
    for (const auto machine : base::kMultiarchFolders) folders.push_back(Join(lib, machine));
    for (const auto machine : base::kMultiarchFolders) {
      folders.push_back(fmt::format("{}/{}/nvidia/current", lib, machine));
    }
  }
  return folders;
}

// The resolved path when it is a regular file; kNotFound when it is missing or something else.
base::Result<std::filesystem::path> RegularFile(const Root& root, std::string_view inside,
                                                bool executable) {
  TRY_ASSIGN(auto path, root.Resolve(inside));
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) {
    return base::Fail(base::FromErrno(errno, fmt::format("look at {}", path.string())));
  }
  const bool runs = info.st_size > 0 && (info.st_mode & (S_IXUSR | S_IXGRP | S_IXOTH)) != 0;
  if (!S_ISREG(info.st_mode) || (executable && !runs)) {
    return base::Fail(
        base::NotFound("NotAnExecutable", fmt::format("{} is not a usable file", path.string())));
  }
  return path;
}

}  // namespace

const std::vector<std::string>& LibraryFolders() {
  static const auto folders = MakeLibraryFolders();
  return folders;
}
std::span<const std::string_view> StandardProgramFolders() { return kStandardProgramFolders; }
std::span<const std::string_view> HostSmiPaths() { return kHostSmiPaths; }

base::Result<std::filesystem::path> FindLibrary(const Root& root, std::string_view file_name) {
  for (const auto& folder : LibraryFolders()) {
    auto found = RegularFile(root, Join(folder, file_name), false);
    if (found) return found;
  }
  return base::Fail(
      base::NotFound("DriverLibraryNotFound",
                     fmt::format("there is no {} below {}", file_name, root.path().string())));
}

base::Result<std::filesystem::path> FirstProgram(const Root& root,
                                                 std::span<const std::string_view> inside_paths) {
  for (const auto inside : inside_paths) {
    if (RegularFile(root, inside, true)) return root.At(inside);
  }
  return base::Fail(base::NotFound(
      "DriverProgramNotFound", fmt::format("no executable at {} below {}",
                                           fmt::join(inside_paths, ", "), root.path().string())));
}

base::Result<std::filesystem::path> FindProgram(const Root& root, std::string_view file_name) {
  std::vector<std::string> paths;
  paths.reserve(kProgramFolders.size());
  for (const auto folder : kProgramFolders) paths.push_back(Join(folder, file_name));
  const std::vector<std::string_view> views(paths.begin(), paths.end());
  return FirstProgram(root, views);
}

base::Result<bool> HasDevFolder(const Root& driver_root) {
  return IsDirectory(driver_root.At("/dev"));
}

DriverRoot HostDriver(const std::string& host_root) {
  return {true, host_root, std::string(kHostMount), host_root, std::string(kHostMount)};
}

base::Result<DriverRoot> ContainerDriver(const std::string& host_root,
                                         const std::string& install_folder,
                                         const std::filesystem::path& seen_at) {
  TRY_ASSIGN(const bool has_devices, HasDevFolder(Root(seen_at)));
  DriverRoot root{false, install_folder, std::string(kDriverMount), host_root,
                  std::string(kHostMount)};
  if (has_devices) {
    root.device_root = install_folder;
    root.device_root_container = kDriverMount;
  }
  return root;
}

}  // namespace pitcrew::host
