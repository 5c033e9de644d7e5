#include "shim/ld_cache_update.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_set>

#include "base/elf.h"
#include "base/ld_cache.h"
#include "base/strings.h"

namespace pitcrew::shim {
namespace {

constexpr const char* kConf = "/etc/ld.so.conf";
constexpr const char* kCache = "/etc/ld.so.cache";
constexpr int kDeepestInclude = 8;
// Far above any distribution's: what an image says beyond is there to keep the hook busy.
constexpr std::size_t kMostConfFiles = 1000;
constexpr std::size_t kMostFolders = 4096;

#if defined(__aarch64__)
constexpr const char* kTriple = "aarch64-linux-gnu";
constexpr const char* kMuslPath = "/etc/ld-musl-aarch64.path";
#else
constexpr const char* kTriple = "x86_64-linux-gnu";
constexpr const char* kMuslPath = "/etc/ld-musl-x86_64.path";
#endif

bool Contains(const std::vector<std::string>& list, const std::string& item) {
  return std::ranges::find(list, item) != list.end();
}

void AddOnce(std::vector<std::string>& list, const std::string& item) {
  if (!Contains(list, item)) list.push_back(item);
}

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
  [[nodiscard]] LoaderFolders Take() { return std::move(folders_); }

 private:
  static base::Status TooMuch(std::string_view what) {
    return base::Fail(
        base::Invalid("LoaderConfigurationTooLarge",
                      fmt::format("{} of the container and what it includes {}", kConf, what)));
  }
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

base::Result<std::vector<std::string>> SystemFolders(const ContainerRoot& root) {
  TRY_ASSIGN(const bool is_debian, root.Exists("/etc/debian_version"));
  // Distributions with Debian's layout do not always have that file (images made from scratch).
  TRY_ASSIGN(const bool has_triple, root.Exists(fmt::format("/usr/lib/{}", kTriple)));
  std::vector<std::string> folders;
  if (is_debian || has_triple) {
    folders = {fmt::format("/lib/{}", kTriple), fmt::format("/usr/lib/{}", kTriple)};
  }
  folders.insert(folders.end(), {"/lib", "/usr/lib"});
  if (!is_debian) folders.insert(folders.end(), {"/lib64", "/usr/lib64"});
  return folders;
}

// ldconfig's choice of names (glibc: elf/ldconfig.c, search_dir).
bool MayBeLibrary(const std::string& name) {
  return (name.starts_with("lib") || name.starts_with("ld-") || name.starts_with("ld.so")) &&
         name.find(".so") != std::string::npos;
}

// "libcuda.so.580.95.05" is newer than "libcuda.so.570.1".
bool IsNewer(const std::string& name, const std::string& other) {
  return base::CompareLibraryNames(name, other) > 0;
}

struct Found {
  std::string name;  // SONAME, or a development link's own name
  std::string file;  // a file in the folder that has it
  std::int32_t flags;
};

// What the image's own cache says of one folder. A file of which it speaks was there when the image
// was made, and so was what its links lead to: such files need not be opened, of which there are
// hundreds. What the driver brings is not among them.
class KnownFiles {
 public:
  // `folder` of the container; `resolved` are the folders of the cache's paths and where they lead.
  KnownFiles(const ContainerRoot& root, const std::string& folder, const base::LdCache& cache,
             std::map<std::string_view, std::string>& resolved) {
    const auto place = root.Resolve(folder);
    if (!place) return;
    for (const auto& entry : cache.entries) {
      const std::string_view path = entry.path;
      const auto slash = path.rfind('/');
      if (slash == std::string_view::npos) continue;
      if (resolved.size() > kMostFolders) return;
      const auto [known, added] = resolved.try_emplace(path.substr(0, slash));
      if (added) known->second = root.Resolve(known->first).value_or("");
      if (known->second != *place) continue;
      const auto file = path.substr(slash + 1);
      files_.insert(file);
      (file == entry.name ? sonames_ : renamed_).insert(entry.name);
    }
  }

  // `names` are all of the folder, sorted.
  [[nodiscard]] bool Covers(const std::string& name, const std::vector<std::string>& names) const {
    if (files_.contains(name)) return true;
    // libz.so.1.3.1 is what libz.so.1 leads to. libcuda.so.580 is nothing that libcuda.so tells of.
    const std::string_view whole = name;
    const auto version = whole.find(".so.");
    if (version == std::string_view::npos) return false;
    for (auto dot = whole.find('.', version + 4); dot != std::string_view::npos;
         dot = whole.find('.', dot + 1)) {
      const auto soname = whole.substr(0, dot);
      if (sonames_.contains(soname) && std::ranges::binary_search(names, soname)) return true;
    }
    return false;
  }
  // Whether the cache leads this name to a file of another name: which of all is newest counts
  // then.
  [[nodiscard]] bool Renames(const std::string& soname) const { return renamed_.contains(soname); }

 private:
  std::unordered_set<std::string_view> files_;
  std::unordered_set<std::string_view> sonames_;  // of files with that name
  std::unordered_set<std::string_view> renamed_;
};

base::Result<std::vector<Found>> ScanFolder(const ContainerRoot& root, const std::string& folder,
                                            const KnownFiles* known_files) {
  std::vector<Found> found;
  TRY_ASSIGN(const auto names, root.List(folder));
  for (const auto& name : names) {
    if (!MayBeLibrary(name)) continue;
    if (known_files != nullptr && known_files->Covers(name, names)) continue;
    const auto file = root.OpenFile(folder + "/" + name);
    if (!file) continue;  // a folder, a link to nothing
    const auto library = base::ReadElfLibrary(file->get());
    if (!library) continue;  // a linker script, a text
    const std::int32_t flags = base::LibraryFlags(library->machine, library->is_64_bit);
    if (flags == 0 || library->soname.find('/') != std::string::npos) continue;
    const std::string soname = library->soname.empty() ? name : library->soname;
    if (known_files != nullptr && known_files->Renames(soname)) {
      return ScanFolder(root, folder, nullptr);
    }
    if (name.ends_with(".so") && name != soname) found.push_back({name, name, flags});
    const auto known = std::ranges::find_if(
        found, [&](const Found& other) { return other.name == soname && other.flags == flags; });
    if (known == found.end()) {
      found.push_back({soname, name, flags});
    } else if (known->file != soname && (name == soname || IsNewer(name, known->file))) {
      known->file = name;
    }
  }
  return found;
}

// Entries of the folder; with `make_links` also the links that have the SONAMEs as their names.
base::Status AddFolder(const ContainerRoot& root, const std::string& folder, bool make_links,
                       const KnownFiles* known_files, std::vector<base::LdCacheEntry>& entries) {
  TRY_ASSIGN(const auto found, ScanFolder(root, folder, known_files));
  for (const auto& library : found) {
    std::string path = folder + "/" + library.file;
    if (library.file != library.name && make_links) {
      const auto linked = root.SetLink(folder + "/" + library.name, library.file);
      // In a folder that cannot be written (a read-only mount) the loader gets the file itself.
      if (!linked && linked.error().code != base::Code::kDenied) return base::Fail(linked.error());
      if (linked) path = folder + "/" + library.name;
    }
    entries.push_back({library.flags, library.name, std::move(path), 0, 0});
  }
  return {};
}

base::Status AppendLines(const ContainerRoot& root, const std::string& path,
                         const std::vector<std::string>& lines) {
  const auto existing = root.ReadFile(path, 1U << 20);
  std::string content = existing ? *existing : "";
  if (!content.empty() && !content.ends_with('\n')) content += '\n';
  const auto present = base::Split(content, '\n');
  bool changed = false;
  for (const auto& line : lines) {
    if (Contains(present, line)) continue;
    content += line + "\n";
    changed = true;
  }
  return changed ? root.WriteFile(path, content, 0644) : base::Status{};
}

base::Status WriteConf(const ContainerRoot& root, const std::vector<std::string>& extra) {
  TRY_ASSIGN(const bool has_conf, root.Exists(kConf));
  if (!has_conf) TRY(root.WriteFile(kConf, "include /etc/ld.so.conf.d/*.conf\n", 0644));
  if (extra.empty()) return {};
  return root.WriteFile(fmt::format("/etc/ld.so.conf.d/00-nvcr-{}.conf", RandomName()),
                        base::Join(extra, "\n") + "\n", 0644);
}

// Drops folders of `last` that lead to the same place as an earlier one of either list.
void DropAliases(const ContainerRoot& root, const std::vector<std::string>& first,
                 std::vector<std::string>& last) {
  std::set<std::string> seen;
  for (const auto& folder : first) seen.insert(root.Resolve(folder).value_or(folder));
  std::erase_if(last, [&](const std::string& folder) {
    return !seen.insert(root.Resolve(folder).value_or(folder)).second;
  });
}

}  // namespace

base::Result<LoaderFolders> ReadLoaderFolders(const ContainerRoot& root) {
  ConfReader reader(root);
  TRY(reader.Read(kConf, 0));
  return reader.Take();
}

base::Status UpdateLdCache(const ContainerRoot& root, const std::vector<std::string>& requested) {
  TRY_ASSIGN(const auto system, SystemFolders(root));
  TRY_ASSIGN(LoaderFolders configured, ReadLoaderFolders(root));
  std::vector<std::string> extra;
  for (const auto& folder : requested) {
    const bool known = Contains(system, folder) || Contains(configured.others, folder) ||
                       Contains(configured.from_hooks, folder);
    if (!known) AddOnce(extra, folder);
  }
  TRY_ASSIGN(const bool is_musl, root.Exists("/etc/alpine-release"));
  if (is_musl) {
    std::vector<std::string> lines = extra;
    lines.insert(lines.end(), system.begin(), system.end());
    TRY(AppendLines(root, kMuslPath, lines));
  }
  TRY(WriteConf(root, extra));

  base::LdCache cache;
  const auto bytes = root.ReadFile(kCache);
  bool has_cache = false;
  if (bytes) {
    if (auto parsed = base::ParseLdCache(*bytes)) {
      cache = *std::move(parsed);
      has_cache = true;
    }
  }
  // The loader takes the first entry of a name: what hooks put in front comes before the image's
  // own folders, system folders come last.
  std::vector<std::string> first = configured.from_hooks;
  for (const auto& folder : extra) AddOnce(first, folder);
  std::vector<std::string> last;
  if (!has_cache) last = configured.others;
  for (const auto& folder : requested) {
    if (!Contains(first, folder)) AddOnce(last, folder);
  }
  if (!has_cache) {
    for (const auto& folder : system) AddOnce(last, folder);
  }
  // /lib is often a link to /usr/lib: one scan is enough.
  DropAliases(root, first, last);
  std::vector<base::LdCacheEntry> entries;
  for (const auto& folder : first) {
    TRY(AddFolder(root, folder, Contains(requested, folder), nullptr, entries));
  }
  std::vector<base::LdCacheEntry> behind;
  std::map<std::string_view, std::string> resolved;
  for (const auto& folder : last) {
    const KnownFiles known_files(root, folder, cache, resolved);
    TRY(AddFolder(root, folder, Contains(requested, folder), &known_files, behind));
  }
  cache.entries.insert(cache.entries.begin(), entries.begin(), entries.end());
  cache.entries.insert(cache.entries.end(), behind.begin(), behind.end());
  return root.WriteFile(kCache, WriteLdCache(cache), 0644);
}

}  // namespace pitcrew::shim
