#include "shim/loader_folders.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <set>

#include "base/machine.h"
#include "base/strings.h"

namespace pitcrew::shim {
namespace {

// Far above any distribution's: what an image says beyond is there to keep the hook busy.
constexpr int kDeepestInclude = 8;
constexpr std::size_t kMostConfFiles = 1000;
constexpr std::size_t kMostFolders = 4096;

std::string FileName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// Files that "include PATTERN" names in a file of the folder `from`, sorted as by glob(3); only the
// last part may have wildcards, as in every distribution's ld.so.conf. The file `ours` counts as if
// it were there.
base::Result<std::vector<std::string>> Included(const ContainerRoot& root, std::string pattern,
                                                const std::string& from, const std::string& ours) {
  if (!pattern.starts_with('/')) pattern = from + "/" + pattern;
  const std::string folder = pattern.substr(0, pattern.rfind('/'));
  const std::string name_pattern = FileName(pattern);
  TRY_ASSIGN(auto names, root.List(folder));
  if (folder == kLoaderIncludes && !ours.empty()) {
    names.insert(std::ranges::lower_bound(names, ours), ours);
  }
  std::vector<std::string> files;
  for (const auto& name : names) {
    if (::fnmatch(name_pattern.c_str(), name.c_str(), FNM_PERIOD) == 0) {
      files.push_back(folder + "/" + name);
    }
  }
  return files;
}

// Reads each file once: an image can make its files include one another.
class ConfReader {
 public:
  ConfReader(const ContainerRoot& root, const std::string& ours)
      : root_(root), ours_(ours), path_of_ours_(std::string(kLoaderIncludes) + "/" + ours) {}

  base::Status Read(const std::string& path, int depth) {
    if (!files_.insert(path).second) return {};
    if (!ours_.empty() && path == path_of_ours_) {
      found_.place_of_ours = found_.folders.size();
      return {};
    }
    const auto text = root_.ReadFile(path, 1U << 20);
    if (!text) return {};  // missing, or nothing that ldconfig would read either
    if (depth == 0) found_.is_configured = true;
    const std::string folder = path.substr(0, path.rfind('/'));
    for (const auto& raw : base::Split(*text, '\n')) {
      const std::string line(base::Trim(std::string_view(raw).substr(0, raw.find('#'))));
      if (line.starts_with("include ") || line.starts_with("include\t")) {
        if (depth < kDeepestInclude) TRY(Include(line.substr(8), folder, depth));
      } else if (line.starts_with('/')) {
        TRY(AddFolder(line.substr(0, line.find('='))));
      }
    }
    return {};
  }
  [[nodiscard]] bool IsConfigured() const { return found_.is_configured; }
  base::Status Include(std::string patterns, const std::string& folder, int depth) {
    std::ranges::replace(patterns, '\t', ' ');
    for (const auto& pattern : base::SplitTrimmed(patterns, ' ')) {
      if (!patterns_.insert(folder + " " + pattern).second) continue;
      if (patterns_.size() > kMostConfFiles) return TooMuch("include too much");
      TRY_ASSIGN(const auto files, Included(root_, pattern, folder, ours_));
      for (const auto& file : files) {
        if (files_.size() > kMostConfFiles) return TooMuch("include too much");
        TRY(Read(file, depth + 1));
      }
    }
    return {};
  }
  [[nodiscard]] LoaderFolders Take() { return std::move(found_); }

 private:
  static base::Status TooMuch(std::string_view what) {
    return base::Fail(base::Invalid(
        "LoaderConfigurationTooLarge",
        fmt::format("{} of the container and what it includes {}", kLoaderConfiguration, what)));
  }
  base::Status AddFolder(std::string folder) {
    while (folder.size() > 1 && (folder.ends_with('/') || base::Trim(folder) != folder)) {
      folder.pop_back();
    }
    if (!known_.insert(folder).second) return {};
    if (known_.size() > kMostFolders) return TooMuch("name too many folders");
    found_.folders.push_back(std::move(folder));
    return {};
  }

  const ContainerRoot& root_;
  const std::string ours_;
  const std::string path_of_ours_;
  std::set<std::string> files_;
  std::set<std::string> patterns_;
  std::set<std::string> known_;
  LoaderFolders found_;
};

std::vector<std::string> MultiarchFolders() {
  return {fmt::format("/lib/{}", base::kOwnMultiarchFolder),
          fmt::format("/usr/lib/{}", base::kOwnMultiarchFolder)};
}

}  // namespace

base::Result<LoaderFolders> ReadLoaderFolders(const ContainerRoot& root, const std::string& ours) {
  ConfReader reader(root, ours);
  TRY(reader.Read(kLoaderConfiguration, 0));
  // The hook makes one that includes them.
  if (!reader.IsConfigured()) TRY(reader.Include("*.conf", kLoaderIncludes, 0));
  return reader.Take();
}

base::Result<std::vector<std::string>> SystemFolders(const ContainerRoot& root) {
  TRY_ASSIGN(const bool is_debian, root.Exists("/etc/debian_version"));
  bool has_triple = is_debian;
  if (!is_debian) {
    // Images made from scratch do not always have that file. That there is such a folder tells
    // nothing: a driver's libraries may be mounted there into any image.
    TRY_ASSIGN(has_triple,
               root.Exists(fmt::format("/usr/lib/{}/libc.so.6", base::kOwnMultiarchFolder)));
  }
  std::vector<std::string> folders;
  if (has_triple) {
    folders = MultiarchFolders();
  }
  folders.insert(folders.end(), {"/lib", "/usr/lib"});
  if (!is_debian) folders.insert(folders.end(), {"/lib64", "/usr/lib64"});
  return folders;
}

base::Result<std::vector<std::string>> FoldersOfDebiansLayout(const ContainerRoot& root) {
  TRY_ASSIGN(const bool exist, root.Exists(fmt::format("/usr/lib/{}", base::kOwnMultiarchFolder)));
  return exist ? MultiarchFolders() : std::vector<std::string>();
}

}  // namespace pitcrew::shim
