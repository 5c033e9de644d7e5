#include "shim/loader_folders.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <set>

#include "base/strings.h"

namespace pitcrew::shim {
namespace {

// Far above any distribution's: what an image says beyond is there to keep the hook busy.
constexpr int kDeepestInclude = 8;
constexpr std::size_t kMostConfFiles = 1000;
constexpr std::size_t kMostFolders = 4096;

#if defined(__aarch64__)
constexpr const char* kTriple = "aarch64-linux-gnu";
#else
constexpr const char* kTriple = "x86_64-linux-gnu";
#endif

std::string FileName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

bool IsFromHook(const std::string& path) {
  const std::string name = FileName(path);
  return name.starts_with("00-compat-") || name.starts_with("00-nvcr-");
}

// Files that "include PATTERN" names; only the last part may have wildcards, as in every
// distribution's ld.so.conf.
base::Result<std::vector<std::string>> Included(const ContainerRoot& root, std::string pattern) {
  if (!pattern.starts_with('/')) pattern = "/etc/" + pattern;
  const std::string folder = pattern.substr(0, pattern.rfind('/'));
  TRY_ASSIGN(const auto names, root.List(folder));
  std::vector<std::string> files;
  for (const auto& name : names) {
    if (::fnmatch(FileName(pattern).c_str(), name.c_str(), FNM_PERIOD) == 0) {
      files.push_back(folder + "/" + name);
    }
  }
  return files;
}

// Reads each file once: an image can make its files include one another.
class ConfReader {
 public:
  explicit ConfReader(const ContainerRoot& root) : root_(root) {}

  base::Status Read(const std::string& path, int depth) {
    if (!files_.insert(path).second) return {};
    const auto text = root_.ReadFile(path, 1U << 20);
    if (!text) return {};  // missing, or nothing that ldconfig would read either
    if (depth == 0) folders_.is_configured = true;
    for (const auto& raw : base::Split(*text, '\n')) {
      const std::string line(base::Trim(std::string_view(raw).substr(0, raw.find('#'))));
      if (line.starts_with("include ") || line.starts_with("include\t")) {
        if (depth < kDeepestInclude) TRY(Include(line.substr(8), depth));
      } else if (line.starts_with('/')) {
        TRY(AddFolder(path, line.substr(0, line.find('='))));
      }
    }
    return {};
  }
  [[nodiscard]] bool IsConfigured() const { return folders_.is_configured; }
  base::Status Include(std::string_view patterns, int depth) {
    for (const auto& pattern : base::SplitTrimmed(patterns, ' ')) {
      if (!patterns_.insert(pattern).second) continue;
      if (patterns_.size() > kMostConfFiles) return TooMuch("include too much");
      TRY_ASSIGN(const auto files, Included(root_, pattern));
      for (const auto& file : files) {
        if (files_.size() > kMostConfFiles) return TooMuch("include too much");
        TRY(Read(file, depth + 1));
      }
    }
    return {};
  }
  [[nodiscard]] LoaderFolders Take() { return std::move(folders_); }

 private:
  static base::Status TooMuch(std::string_view what) {
    return base::Fail(base::Invalid(
        "LoaderConfigurationTooLarge",
        fmt::format("{} of the container and what it includes {}", kLoaderConfiguration, what)));
  }
  base::Status AddFolder(const std::string& file, std::string folder) {
    auto& list = IsFromHook(file) ? folders_.from_hooks : folders_.others;
    auto& known = IsFromHook(file) ? known_from_hooks_ : known_others_;
    if (!known.insert(folder).second) return {};
    if (known.size() > kMostFolders) return TooMuch("name too many folders");
    list.push_back(std::move(folder));
    return {};
  }

  const ContainerRoot& root_;
  std::set<std::string> files_;
  std::set<std::string> patterns_;
  std::set<std::string> known_from_hooks_;
  std::set<std::string> known_others_;
  LoaderFolders folders_;
};

}  // namespace

base::Result<LoaderFolders> ReadLoaderFolders(const ContainerRoot& root) {
  ConfReader reader(root);
  TRY(reader.Read(kLoaderConfiguration, 0));
  // The hook makes one that includes them.
  if (!reader.IsConfigured()) TRY(reader.Include("/etc/ld.so.conf.d/*.conf", 0));
  return reader.Take();
}

base::Result<std::vector<std::string>> SystemFolders(const ContainerRoot& root) {
  TRY_ASSIGN(const bool is_debian, root.Exists("/etc/debian_version"));
  bool has_triple = is_debian;
  if (!is_debian) {
    // Images made from scratch do not always have that file. That there is such a folder tells
    // nothing: a driver's libraries may be mounted there into any image.
    TRY_ASSIGN(has_triple, root.Exists(fmt::format("/usr/lib/{}/libc.so.6", kTriple)));
  }
  std::vector<std::string> folders;
  if (has_triple) {
    folders = {fmt::format("/lib/{}", kTriple), fmt::format("/usr/lib/{}", kTriple)};
  }
  folders.insert(folders.end(), {"/lib", "/usr/lib"});
  if (!is_debian) folders.insert(folders.end(), {"/lib64", "/usr/lib64"});
  return folders;
}

base::Result<std::vector<std::string>> FoldersOfDebiansLayout(const ContainerRoot& root) {
  TRY_ASSIGN(const bool exist, root.Exists(fmt::format("/usr/lib/{}", kTriple)));
  if (!exist) return std::vector<std::string>();
  return std::vector<std::string>{fmt::format("/lib/{}", kTriple),
                                  fmt::format("/usr/lib/{}", kTriple)};
}

}  // namespace pitcrew::shim
