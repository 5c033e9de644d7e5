#include <algorithm>
#include <filesystem>

#include "cdi/generate/locate_libraries.h"
#include "cdi/generate/tegra.h"
#include "host/glob.h"

namespace pitcrew::cdi_generate {
namespace {

constexpr int kLongestChain = 40;  // as the kernel's own limit (path_resolution(7))

template <class T>
void AddNew(std::vector<T>& list, T item) {
  if (std::ranges::find(list, item) == list.end()) list.push_back(std::move(item));
}

// Where a file that is no folder really lies, seen from inside; "" for anything else.
std::string RealFile(const host::Root& root, const std::string& path) {
  const auto real = root.Resolve(path);
  std::error_code ignored;
  if (!real || std::filesystem::is_directory(*real, ignored)) return "";
  const auto inside = root.Strip(*real);
  return inside ? inside->string() : "";
}

// Of every link from `path` to its file. Empty when a link on the way leads nowhere.
std::vector<std::string> LinksOnTheWay(const host::Root& root, std::filesystem::path path) {
  std::vector<std::string> links;
  for (int i = 0; i < kLongestChain; ++i) {
    const auto folder = root.Resolve(path.parent_path().string());
    if (!folder) return {};
    const auto target = host::ReadLink(*folder / path.filename());
    if (!target) return links;
    links.push_back(*target + "::" + path.string());
    path = (path.parent_path() / *target).lexically_normal();
  }
  return {};
}

class Finder {
 public:
  explicit Finder(const LocateOptions& options) : options_(options) {}

  base::Status AddNodes(const std::string& pattern) {
    bool known = false;
    for (const auto& whole : {pattern, "/dev/" + pattern}) {
      TRY_ASSIGN(const auto paths, host::Glob(options_.dev_root, whole));
      for (const auto& path : paths) {
        auto node = LocateNode(options_.dev_root, path);
        known = known || node;
        if (node) AddNew(found_.nodes, *std::move(node));
      }
    }
    return Note(known, pattern);
  }

  base::Status AddFolders(const std::string& pattern) {
    bool known = false;
    TRY_ASSIGN(const auto paths, host::Glob(options_.driver_root, pattern));
    for (const auto& path : paths) {
      const auto real = options_.driver_root.Resolve(path);
      std::error_code ignored;
      if (!real || !std::filesystem::is_directory(*real, ignored)) continue;
      TRY_ASSIGN(const auto inside, options_.driver_root.Strip(*real));
      known = true;
      AddNew(found_.folders, {path, inside == path ? "" : inside.string()});
    }
    return Note(known, pattern);
  }

  base::Status AddLibraries(const std::string& pattern) {
    TRY_ASSIGN(const auto paths, RealFiles(pattern));
    for (const auto& path : paths) {
      if (std::ranges::find(found_.libraries, path, &Library::path) != found_.libraries.end())
        continue;
      Library library{path, "", "", {}};
      DescribeLibrary(options_.driver_root, library);
      found_.libraries.push_back(std::move(library));
    }
    return Note(!paths.empty(), pattern);
  }

  base::Status AddLinks(const std::string& pattern) {
    TRY_ASSIGN(const auto targets, RealFiles(pattern));
    for (const auto& target : targets) AddNew(found_.link_targets, {target, ""});
    TRY_ASSIGN(const auto paths, host::Glob(options_.driver_root, pattern));
    for (const auto& path : paths) {
      if (RealFile(options_.driver_root, path).empty()) continue;
      for (auto& link : LinksOnTheWay(options_.driver_root, path))
        AddNew(found_.links, std::move(link));
    }
    return Note(!targets.empty(), pattern);
  }

  TegraFiles Take() {
    found_.has_release_file =
        !RealFile(options_.driver_root, std::string(host::kTegraRelease)).empty();
    return std::move(found_);
  }

 private:
  // The folders that were asked for come before the root itself.
  base::Result<std::vector<std::string>> RealFiles(const std::string& pattern) {
    std::vector<std::string> files;
    auto folders = options_.library_folders;
    folders.emplace_back("");
    for (const auto& folder : folders) {
      TRY_ASSIGN(const auto paths, host::Glob(options_.driver_root, folder + "/" + pattern));
      for (const auto& path : paths) {
        if (auto real = RealFile(options_.driver_root, path); !real.empty())
          AddNew(files, std::move(real));
      }
    }
    return files;
  }

  base::Status Note(bool known, const std::string& pattern) {
    if (!known) found_.missing.push_back(pattern);
    return {};
  }

  const LocateOptions& options_;
  TegraFiles found_;
};

}  // namespace

base::Result<TegraFiles> LocateTegra(const LocateOptions& options, const host::TegraLists& lists,
                                     const std::vector<std::string>& ignored_links) {
  Finder finder(options);
  for (const auto& pattern : lists.devices) TRY(finder.AddNodes(pattern));
  for (const auto& pattern : lists.folders) TRY(finder.AddFolders(pattern));
  for (const auto& pattern : lists.libraries) TRY(finder.AddLibraries(pattern));
  for (const auto& path : lists.links) {
    const bool ignored = std::ranges::any_of(ignored_links, [&](const std::string& pattern) {
      return host::FitsPattern(pattern, path);
    });
    if (!ignored) TRY(finder.AddLinks(path));
  }
  return finder.Take();
}

}  // namespace pitcrew::cdi_generate
