#include "cdi/generate/locate_libraries.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/elf.h"
#include "base/file_descriptor.h"
#include "host/glob.h"

namespace pitcrew::cdi_generate {
namespace {

constexpr std::string_view kUnversioned[] = {"libEGL.so",
                                             "libGL.so",
                                             "libGLESv1_CM.so",
                                             "libGLESv2.so",
                                             "libGLX.so",
                                             "libGLdispatch.so",
                                             "libOpenCL.so",
                                             "libOpenGL.so",
                                             "libnvidia-api.so",
                                             "libnvidia-egl-xcb.so",
                                             "libnvidia-egl-xlib.so"};

// What stands behind ".so." of a library's real name.
std::string VersionSuffix(const std::filesystem::path& library) {
  const std::string name = library.filename().string();
  const auto at = name.find(".so.");
  return at == std::string::npos ? "" : name.substr(at + 4);
}

// Libraries of one folder whose names match, in order of their names. A link to a file of another
// name keeps its own name: that is the one that programs look for.
base::Result<std::vector<Library>> LibrariesIn(const host::Root& root, std::string_view folder,
                                               const std::string& pattern) {
  std::vector<Library> found;
  const auto real_folder = root.Resolve(folder);
  if (!real_folder) return found;
  TRY_ASSIGN(const auto inside, root.Strip(*real_folder));
  TRY_ASSIGN(const auto names, host::NamesIn(root, inside.string()));
  for (const auto& name : names) {
    if (!host::FitsName(pattern, name)) continue;
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

base::Result<std::vector<std::string>> FindLibraryFolders(host::LibrarySearch& search,
                                                          const std::string& version) {
  const std::string pattern = "lib*.so." + version;
  std::vector<std::string> folders;
  const auto add = [&](const std::string& library) {
    std::string inside = library.substr(0, library.rfind('/'));
    if (inside.empty()) inside = "/";
    if (std::ranges::find(folders, inside) == folders.end()) folders.push_back(std::move(inside));
  };
  for (const auto& folder : search.folders()) {
    TRY_ASSIGN(const auto libraries, LibrariesIn(search.root(), folder, pattern));
    for (const auto& library : libraries) add(library.path);
  }
  if (folders.empty()) {
    for (const auto& library : search.FindInCache(pattern)) {
      TRY_ASSIGN(const auto inside, search.root().Strip(library));
      add(inside.string());
    }
  }
  if (!folders.empty()) return folders;
  return base::Fail(base::NotFound(
      "DriverLibrariesNotFound",
      fmt::format("there is no lib*.so.{} below {}", version, search.root().path().string())));
}

// The files that these links of the driver lead to.
void AddUnversioned(const host::Root& root, const std::vector<std::string>& folders,
                    std::vector<Library>& found) {
  for (const auto name : kUnversioned) {
    for (const auto& folder : folders) {
      const auto real = root.Resolve(fmt::format("{}/{}", folder, name));
      std::error_code ignored;
      if (!real || !std::filesystem::is_regular_file(*real, ignored)) continue;
      const auto inside = root.Strip(*real);
      if (!inside || std::ranges::find(found, inside->string(), &Library::path) != found.end())
        continue;
      Library library{inside->string(), "", "", {}};
      DescribeLibrary(root, library);
      found.push_back(std::move(library));
    }
  }
}

}  // namespace

base::Result<std::string> FindVersion(const LocateOptions& options, host::LibrarySearch& search) {
  if (!options.version.empty()) return options.version;
  for (const auto* pattern : {"libcuda.so.*.*", "libnvidia-ml.so.*.*"}) {
    TRY_ASSIGN(const auto found, search.Find(pattern));
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

void DescribeLibrary(const host::Root& root, Library& library) {
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

base::Result<std::vector<Library>> FindDriverLibraries(const LocateOptions& options,
                                                       host::LibrarySearch& search,
                                                       DriverFiles& files) {
  const auto& root = options.driver_root;
  TRY_ASSIGN(files.library_folders, FindLibraryFolders(search, files.version));
  std::vector<Library> found;
  const auto append = [&](const std::string& folder, const std::string& pattern) -> base::Status {
    TRY_ASSIGN(auto libraries, LibrariesIn(root, folder, pattern));
    for (auto& library : libraries) {
      const bool known = std::ranges::find(found, library.path, &Library::path) != found.end();
      if (known) continue;
      DescribeLibrary(root, library);
      found.push_back(std::move(library));
    }
    return {};
  };
  for (const auto& folder : files.library_folders) {
    TRY(append(folder, "*.so." + files.version));
    TRY(append(folder + "/vdpau", "*.so." + files.version));
  }
  for (const auto& folder : files.library_folders) TRY(append(folder, "libnvidia-nvvm70.so.*"));
  if (options.unversioned_libraries) AddUnversioned(root, files.library_folders, found);
  return found;
}

}  // namespace pitcrew::cdi_generate
